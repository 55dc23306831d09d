//! The index against a naive BM25 over the same analysis, and what the tokenizer makes of each language.

#![expect(clippy::unwrap_used)]
#![expect(clippy::float_cmp, reason = "scores are compared with themselves and with exact zero")]

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const WORDS: [&str; 34] = [
    "the",
    "a",
    "coffee",
    "guitar",
    "running",
    "runs",
    "Caroline",
    "INC-2024-0017",
    "user_id",
    "getUserName",
    "3.14",
    "2024-05-03",
    "¥12,000",
    "a.b@c.com",
    "喜欢",
    "的",
    "咖啡",
    "张曼婷推荐了一部科幻电影",
    "北京",
    "京都",
    "東京タワー",
    "食べます",
    "서울에서",
    "커피를",
    "café",
    "кофе",
    "قهوة",
    "C++",
    "https://example.com/docs",
    "don't",
    "。",
    "x",
    "y",
    "z",
];

fn texts(most: usize) -> impl Strategy<Value = Vec<(u32, String)>> {
    let word = prop_oneof![4 => 0..8_usize, 2 => 0..WORDS.len()].prop_map(|place| WORDS[place]);
    prop::collection::vec((1_u32..4, prop::collection::vec(word, 0..12)), 0..most).prop_map(|texts| {
        let mut row = 0;
        texts
            .into_iter()
            .map(|(step, words)| {
                row += step;
                (row - 1, words.join(" "))
            })
            .collect()
    })
}

fn index_of(texts: &[(u32, String)]) -> KeywordIndex {
    let mut index = KeywordIndex::new(KeywordConfig::default());
    for (row, text) in texts {
        index.insert(Row(*row), &analyze(text));
    }
    index
}

/// BM25 by the formula, in f64, from the analysed texts.
fn naive(texts: &[(u32, String)], query: &Query) -> Vec<(u32, f64)> {
    let analysed: Vec<(u32, Terms)> = texts.iter().map(|(row, text)| (*row, analyze(text))).collect();
    let average =
        analysed.iter().map(|(_, terms)| f64::from(terms.len_tokens())).sum::<f64>() / analysed.len().max(1) as f64;
    analysed
        .iter()
        .map(|(row, terms)| {
            let norm = 0.9 * (0.6 + 0.4 * f64::from(terms.len_tokens()) / average.max(1.0));
            let counts: HashMap<u64, u32> = terms.counts().iter().copied().collect();
            let score = query.terms.iter().filter_map(|(hash, weight)| {
                let frequency = f64::from(*counts.get(hash)?);
                Some(f64::from(*weight) * frequency / (frequency + norm))
            });
            (*row, score.sum())
        })
        .collect()
}

fn check(texts: &[(u32, String)], question: &str, mask: &RowSet, k: usize) -> Result<(), TestCaseError> {
    let index = index_of(texts);
    let query = index.query(question);
    let found = index.search(&query, mask, k);
    let rows: Vec<Row> = texts.iter().map(|(row, _)| Row(*row)).collect();
    let scores = index.scores(&query, &rows);
    let tolerance = f64::from(query.ideal()) * 1e-5;
    for ((row, expected), score) in naive(texts, &query).into_iter().zip(&scores) {
        prop_assert!((expected - f64::from(*score)).abs() <= tolerance, "row {row}: {expected} {score}");
        prop_assert_eq!(expected > 0.0, *score > 0.0);
        prop_assert!(*score <= query.ideal() * 1.00001);
    }
    // The whole order follows from the scores, so the search must give exactly it.
    let mut best: Vec<(Row, f32)> =
        rows.into_iter().zip(scores).filter(|(row, score)| *score > 0.0 && mask.contains(*row)).collect();
    best.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    best.truncate(k);
    prop_assert_eq!(found, best);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn search_is_the_naive_bm25(texts in texts(60), question in prop::collection::vec(0..WORDS.len(), 0..6),
                                mask in prop::collection::vec(any::<bool>(), 0..200), k in 0_usize..20) {
        let question = question.into_iter().map(|place| WORDS[place]).collect::<Vec<_>>().join("，");
        let mask = RowSet::from_rows(mask.iter().enumerate().filter(|(_, allowed)| **allowed).map(|(row, _)| Row(row as u32)));
        check(&texts, &question, &mask, k)?;
    }

    #[test]
    fn any_text_is_analysed(text in any::<String>(), other in "[A-Za-z0-9_.@:/'#+,한글中文カナ é\u{301}-]{0,80}") {
        for text in [text, other] {
            let terms = analyze(&text);
            prop_assert!(terms.len_tokens() as usize <= 4 * text.len());
            prop_assert!(terms.distinct().zip(terms.distinct().skip(1)).all(|(one, next)| one < next));
            prop_assert_eq!(terms.jaccard(&terms), 1.0);
            let index = index_of(&[(0, text.clone())]);
            // A text contains itself, whatever it is.
            match index.rows_with(&text) {
                Ok(rows) => prop_assert!(rows.contains(Row(0))),
                Err(error) => { prop_assert!(terms.is_empty()); prop_assert!(error.to_string().starts_with("must: ")); }
            }
        }
    }
}

/// A fixed sequence of numbers (Knuth's MMIX constants), the same in every run.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn many_blocks_and_windows_are_the_naive_bm25_too() {
    let mut next = numbers(7);
    let mut row = 0;
    let texts: Vec<(u32, String)> = (0..12_000)
        .map(|_| {
            row += 1 + next(2) as u32 * next(3) as u32;
            // Word i stands about 1/i as often as word 1, and the rarest once or twice.
            let words: Vec<String> = (0..4 + next(12)).map(|_| format!("w{}", 4_000 / (1 + next(4_000)))).collect();
            (row, words.join(" "))
        })
        .collect();
    let all = RowSet::full(row as usize + 1);
    let some = RowSet::from_rows((0..row).filter(|row| row % 97 == 5 || (5_000..5_100).contains(row)).map(Row));
    for (question, k) in
        [("w1 w2 w3 w40 w700", 10), ("w1", 50), ("w1 w1 w2", 10_000), ("w4000 w2000 w1333 w1", 3), ("w9 w11 w13", 100)]
    {
        check(&texts, question, &all, k).unwrap();
        check(&texts, question, &some, k).unwrap();
    }
    let index = index_of(&texts);
    let with: Vec<u32> = index.rows_with("w1 w7").unwrap().iter().map(|row| row.0).collect();
    let contains = |text: &str, word: &str| text.split(' ').any(|other| other == word);
    let expected: Vec<u32> =
        texts.iter().filter(|(_, text)| contains(text, "w1") && contains(text, "w7")).map(|(row, _)| *row).collect();
    assert!(!expected.is_empty());
    assert_eq!(with, expected);
}

#[test]
fn the_order_of_rows_asked_for_does_not_matter() {
    let texts: Vec<(u32, String)> =
        (0..500).map(|row| (row, format!("coffee {} {}", row % 7, "tea ".repeat(row as usize % 5)))).collect();
    let index = index_of(&texts);
    let query = index.query("coffee tea 3");
    let mut rows: Vec<Row> = (0..520).rev().map(Row).collect();
    rows.extend([Row(3), Row(3), Row(u32::MAX)]);
    let scores = index.scores(&query, &rows);
    for (row, score) in rows.iter().zip(&scores) {
        assert_eq!(index.scores(&query, &[*row]), [*score]);
    }
    assert!(index.scores(&index.query("…"), &rows).iter().all(|score| *score == 0.0));
}

#[test]
fn rows_that_do_not_ascend_are_ignored() {
    let mut index = KeywordIndex::new(KeywordConfig::default());
    let terms = analyze("coffee");
    for row in [5, 5, 3, 9, u32::MAX] {
        index.insert(Row(row), &terms);
    }
    assert_eq!(index.rows(), 2);
    assert_eq!(index.rows_with("coffee").unwrap().iter().collect::<Vec<_>>(), [Row(5), Row(9)]);
    assert!(index.heap_bytes() > 0);
}

#[test]
fn an_empty_index_finds_nothing() {
    let index = KeywordIndex::new(KeywordConfig { k1: f32::NAN, b: f32::INFINITY });
    let query = index.query("coffee 咖啡");
    assert!(query.ideal() > 0.0);
    assert!(index.search(&query, &RowSet::full(100), 10).is_empty());
    assert!(index.rows_with("coffee").unwrap().is_empty());
    assert!(index.query(" ,. 。！").is_empty());
    assert_eq!(index.query("").ideal(), 0.0);
}

/// Which of the texts contain the keyword.
fn with(texts: &[&str], keyword: &str) -> Vec<u32> {
    let texts: Vec<(u32, String)> = (0..).zip(texts.iter().map(|text| (*text).to_owned())).collect();
    index_of(&texts).rows_with(keyword).unwrap().iter().map(|row| row.0).collect()
}

#[test]
fn keywords_are_found_in_every_language() {
    for (text, keywords) in [
        ("我昨天在北京大学食堂吃了麻婆豆腐。", &["北京", "北京大学", "豆腐", "麻", "大学食堂"][..]),
        ("昨日、東京タワーでコーヒーを飲みました", &["東京", "タワー", "コーヒー", "飲みました"]),
        ("ﾊﾝﾊﾞｰｶﾞｰ を食べた", &["ハンバーガー", "食べた"]),
        ("저는 서울에서 커피를 마셨어요", &["서울", "커피", "서울에서"]),
        ("Я пил кофе у ЁЛКИ", &["кофе", "елки", "ёлки"]),
        ("شربتُ القهوةَ في القاهرة", &["شربت", "القهوة", "القاهرة"]),
        ("Le Cafe\u{301} de l’école", &["café", "CAFÉ", "cafe", "école", "ecole"]),
        ("Caroline's dogs were running; she doesn’t mind", &["caroline", "dog", "run", "running", "doesn't", "doesnt"]),
        ("用GPT-4o写了３份报告，共¥12,000元", &["gpt-4o", "gpt", "3", "12000", "12,000", "报告", "写了"]),
        ("ตลาดน้ำกรุงเทพ", &["ตลาด", "กรุงเทพ"]),
        ("मैंने चाय पी", &["चाय", "मैंने"]),
    ] {
        for keyword in keywords {
            assert_eq!(with(&["unrelated 无关 words 文字", text], keyword), [1], "{keyword} in {text}");
        }
    }
    assert_eq!(with(&["北大", "京北", "大北"], "北京"), Vec::<u32>::new());
}

#[test]
fn ids_stay_whole_and_split() {
    for (text, keywords) in [
        ("订单INC-2024-0017已处理。", &["INC-2024-0017", "inc-2024-0017", "INC", "2024", "0017", "17", "订单"][..]),
        ("set user_id=5 in getUserName()", &["user_id", "user", "getUserName", "getusername", "get", "name", "5"]),
        ("write to a.b@c.com, please", &["a.b@c.com", "A.B@C.com", "c.com", "a.b"]),
        ("π is 3.14 on 2024-05-03.", &["3.14", "2024-05-03", "2024", "5", "05", "π"]),
        ("see https://docs.example.com/api/v2?user_id=7#top", &["docs.example.com", "example", "user_id", "api", "7"]),
        ("call HTTPServer in C++ or C#", &["httpserver", "http", "server", "c++", "C#", "c"]),
        ("at 10:30 with AT&T", &["10:30", "10", "at&t"]),
        ("phone +86 138-0013-8000", &["138-0013-8000", "138", "86"]),
    ] {
        for keyword in keywords {
            assert_eq!(with(&["unrelated 无关", text], keyword), [1], "{keyword} in {text}");
        }
    }
    assert_eq!(with(&["INC-2024-0018", "INC 2024 0017", "INC-2024-0017"], "INC-2024-0017"), [2]);
    assert_eq!(with(&["C", "C++", "C#"], "C#"), [2]);
    assert_eq!(with(&["agent 7", "agent 007"], "007"), [1]);
}

#[test]
fn an_id_outweighs_the_phrase_around_it() {
    let mut texts: Vec<(u32, String)> =
        (0..200).map(|row| (row, format!("请问订单INC-2024-{row:04}的处理结果"))).collect();
    for text in &mut texts {
        if text.0 == 17 {
            text.1 = "INC-2024-0017 closed by Lin".to_owned();
        }
    }
    texts.push((200, "请问这张订单的处理结果是什么".to_owned()));
    let index = index_of(&texts);
    let found = index.search(&index.query("请问订单INC-2024-0017的处理结果是什么"), &RowSet::full(300), 3);
    assert_eq!(found[0].0, Row(17));
}

#[test]
fn the_ideal_is_an_absolute_scale() {
    let texts: Vec<(u32, String)> = (0..50)
        .map(|row| (row, if row == 7 { "violin lessons on Tuesday".into() } else { format!("note {row}") }))
        .collect();
    let index = index_of(&texts);
    let share = |question: &str| {
        let query = index.query(question);
        index.search(&query, &RowSet::full(50), 1).first().map_or(0.0, |(_, score)| score / query.ideal())
    };
    assert!(share("violin lessons") > 0.4);
    assert!(share("violin lessons") < 1.0);
    assert!(share("violin quartet premiere yesterday") < share("violin lessons") / 2.0);
    assert_eq!(share("nothing known here"), 0.0);
}

#[test]
fn an_unknown_inflection_is_no_unknown_word() {
    let texts: Vec<(u32, String)> =
        (0..50).map(|row| (row, if row == 7 { "violin well-known".into() } else { format!("note {row} x") })).collect();
    let index = index_of(&texts);
    for question in ["violins", "well known", "well-known", "violin"] {
        let query = index.query(question);
        let (row, score) = index.search(&query, &RowSet::full(50), 1)[0];
        assert_eq!(row, Row(7));
        assert!(score / query.ideal() > 0.35, "{question} {}", score / query.ideal());
    }
    assert_eq!(with(&["well known", "well-known", "known"], "well-known"), [0, 1]);
}

#[test]
fn jaccard_counts_distinct_terms() {
    assert_eq!(analyze("").jaccard(&analyze("。")), 1.0);
    assert_eq!(analyze("tea").jaccard(&analyze("")), 0.0);
    assert_eq!(analyze("tea tea milk").jaccard(&analyze("Milk, tea!")), 1.0);
    assert!((analyze("tea milk").jaccard(&analyze("tea rum")) - 1.0 / 3.0).abs() < 1e-6);
    assert!(analyze("订单0017").jaccard(&analyze("订单0018")) < 0.85);
}

#[test]
fn hostile_texts_are_linear_and_bounded() {
    let size = crate::base::limits::TEXT_BYTES;
    for unit in [
        "a",
        "a_",
        "a.",
        "aA",
        "a1",
        "A",
        "'",
        "a'",
        "a's",
        "n't",
        "1,000",
        "://",
        "https://",
        "a://?",
        "_",
        "é",
        "e\u{301}",
        "\u{301}",
        "中",
        "中a",
        "🎉",
        "\u{200d}",
        "가\u{11a8}",
        "\u{1100}",
        "ﷺ",
        "\0",
        "#",
        "++",
        "c++",
        "@",
        "a@",
        "ß",
        "İ",
        "０",
        "ｶﾞ",
        "\u{fdfa}",
    ] {
        let text: String =
            unit.chars().cycle().take(size / unit.chars().map(char::len_utf8).max().unwrap_or(1)).collect();
        let terms = analyze(&text);
        assert!(terms.counts().iter().map(|(_, count)| *count as usize).sum::<usize>() <= 20 * text.len(), "{unit:?}");
        let mut index = KeywordIndex::new(KeywordConfig::default());
        index.insert(Row(0), &terms);
        let query = index.query(&text);
        assert!(query.terms.len() <= super::query::TERMS);
        assert_eq!(index.search(&query, &RowSet::full(1), 1).len(), usize::from(!terms.is_empty()), "{unit:?}");
    }
}
