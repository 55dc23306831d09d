//! Whether two texts may be folded into one: the second gate of the near-duplicate test, and the differences that
//! forbid it whatever the vectors say.
//!
//! What is folded away is read no more, so the rule is strict: both texts must say the same words in the same order. What
//! may differ is dress: capitals, width, spaces, punctuation, articles, words of courtesy and emphasis, particles. So every
//! number, date, name (in lower case too), negation, pronoun and tense forbids it, in Chinese and English alike, and so does
//! a fact that one of them adds. A paraphrase is not found by it: two memories too many do less harm than one too few.

use unicode_normalization::UnicodeNormalization;

use crate::index::keywords::analyze;

/// What a comparison of two texts says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// They say the same in nearly the same words; the share of common tokens.
    Same(f32),
    /// Too few tokens are common; the share.
    Unlike(f32),
    /// A word differs, is added or stands elsewhere: it may be the whole point.
    Differs,
}

/// Words that add nothing to what is said. None of them can turn it round, so there is no pronoun, no preposition, no
/// auxiliary among them.
const DRESS: [&str; 14] =
    ["a", "an", "also", "hello", "hey", "hi", "just", "oh", "ok", "okay", "please", "really", "the", "very"];

/// Particles of the same kind. Not 了 and 过, which say that it has happened, nor 吗, which asks.
const PARTICLES: [char; 11] = ['的', '啊', '呀', '哦', '嘛', '哈', '吧', '呢', '请', '啦', '喔'];

/// Compares two texts; symmetric. `min_jaccard` is the share of common tokens from which they are the same.
pub fn compare(left: &str, right: &str, min_jaccard: f32) -> Verdict {
    let jaccard = analyze(left).jaccard(&analyze(right));
    if jaccard < min_jaccard {
        return Verdict::Unlike(jaccard);
    }
    if said(left) == said(right) { Verdict::Same(jaccard) } else { Verdict::Differs }
}

/// The words of a text in their order, without their dress. Signs of scripts without spaces are words by themselves, and
/// so is a question mark.
fn said(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let folded: String = text.nfkc().flat_map(char::to_lowercase).collect();
    for chunk in folded.split_whitespace() {
        let mut word = String::new();
        let mut letters = chunk.chars().peekable();
        let mut before = ' ';
        while let Some(letter) = letters.next() {
            let after = letters.peek().copied().unwrap_or(' ');
            if stands_alone(letter) {
                take(&mut words, &mut word);
                if !PARTICLES.contains(&letter) {
                    words.push(letter.to_string());
                }
            } else if letter == '?' {
                take(&mut words, &mut word);
                words.push(letter.to_string());
            } else if is_dress(letter, before, after) {
                // What joins nothing parts: "tea,coffee" are two words.
                if !matches!(letter, '\'' | '\u{2019}' | '"' | '*' | '_' | '`') {
                    take(&mut words, &mut word);
                }
            } else {
                word.push(if letter == '\u{2019}' { '\'' } else { letter });
            }
            before = letter;
        }
        take(&mut words, &mut word);
    }
    words
}

fn take(words: &mut Vec<String>, word: &mut String) {
    let word = std::mem::take(word);
    if !word.is_empty() && !DRESS.contains(&word.as_str()) {
        words.push(word);
    }
}

/// Whether a mark between these two only punctuates. Inside of numbers and words it belongs to them: 10:35, 1,000, 3-5,
/// -4, don't, a@b.org. All signs that are no punctuation (%, +, €, emoji) say something.
fn is_dress(mark: char, before: char, after: char) -> bool {
    match mark {
        '\'' | '\u{2019}' => !(before.is_alphanumeric() && after.is_alphanumeric()),
        '.' | ',' | ':' | '/' | '-' | '@' | '_' | '\u{2010}'..='\u{2015}' => {
            let inside = before.is_alphanumeric() && after.is_alphanumeric();
            // A comma or colon between letters was followed by no space, that is all.
            let joins = before.is_numeric() || after.is_numeric() || !matches!(mark, ',' | ':');
            let sign = matches!(mark, '-' | '.' | '\u{2212}') && after.is_numeric() && !before.is_alphanumeric();
            !(inside && joins || sign || mark == '@')
        }
        '!'
        | ';'
        | '"'
        | '('
        | ')'
        | '['
        | ']'
        | '{'
        | '}'
        | '*'
        | '`'
        | '\u{2018}'
        | '\u{201c}'..='\u{201e}'
        | '\u{2026}'
        | '\u{3001}'..='\u{3002}'
        | '\u{3008}'..='\u{3011}'
        | '\u{30fb}'
        | '\u{b7}'
        | '\u{ab}'
        | '\u{bb}'
        | '\u{200b}'..='\u{200f}'
        | '\u{feff}' => true,
        _ => false,
    }
}

/// Han, kana: written without spaces.
fn stands_alone(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        && letter != '\u{30fb}'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    #[test]
    fn the_same_in_other_dress_is_the_same() {
        for (left, right) in [
            ("I like green tea in the morning.", "I like green tea in the morning"),
            ("I like the green tea in the morning", "i really like green tea in the morning"),
            ("我喜欢在早上喝绿茶。", "我喜欢在早上喝绿茶"),
            ("我喜欢在早上喝绿茶啊！", "我喜欢在早上喝绿茶"),
            ("请用Python写脚本，谢谢", "请用 Python 写脚本,谢谢"),
            ("电话是１２３４５", "电话是12345"),
            ("The report is due on Friday, please remember it", "The report is due on Friday; please remember it!"),
            ("It isn\u{2019}t \u{201c}done\u{201d} yet", "It isn't \"done\" yet"),
            ("朝は緑茶が好きです。", "朝は緑茶が好きです"),
        ] {
            assert!(matches!(compare(left, right, 0.6), Verdict::Same(_)), "{left} / {right}");
        }
    }

    #[test]
    fn what_may_be_the_point_forbids_it() {
        for (left, right) in [
            // Numbers, times, amounts.
            ("The flight to Oslo leaves at 10:35 from gate B", "The flight to Oslo leaves at 10:45 from gate B"),
            ("The rent is 1,000 euros a month", "The rent is 1.000 euros a month"),
            ("It was -5 degrees in the garden", "It was 5 degrees in the garden"),
            ("The discount is 5% on all books", "The discount is 5 on all books"),
            ("He paid €50 for the ticket", "He paid $50 for the ticket"),
            ("Read pages 10-12 of the report", "Read pages 10-13 of the report"),
            ("Take the twenty-one boxes to the office", "Take the twenty-two boxes to the office"),
            ("The meeting is at three in the office", "The meeting is at four in the office"),
            ("会议改到5月3日下午三点在二楼会议室", "会议改到5月4日下午三点在二楼会议室"),
            ("会议改到5月3日下午三点在二楼会议室", "会议改到5月3日下午五点在二楼会议室"),
            // Dates in words.
            ("The report is due on friday in the office", "The report is due on monday in the office"),
            ("Monday is the day of the report", "Friday is the day of the report"),
            ("会议在周三下午开始，请准时", "会议在周四下午开始，请准时"),
            // Names, at the start of a sentence and in lower case too.
            ("Mr Smith likes his letters formal", "Mr Jones likes his letters formal"),
            ("Smith likes his letters formal. Jones does too", "Jones likes his letters formal. Smith does too"),
            ("please always send the report to anna by mail", "please always send the report to otto by mail"),
            ("张主任喜欢正式的邮件语气，请注意格式", "李主任喜欢正式的邮件语气，请注意格式"),
            // Negations.
            (
                "He does like the new plan for the office move a lot",
                "He does not like the new plan for the office move a lot",
            ),
            ("He can come to the office on Friday", "He can't come to the office on Friday"),
            ("She drinks her tea with sugar in the morning", "She drinks her tea without sugar in the morning"),
            ("用户喜欢在早上喝绿茶", "用户不喜欢在早上喝绿茶"),
            ("他已经去过北京出差", "他没去过北京出差"),
            ("记得给他打电话", "别给他打电话"),
            // Who, when, whether.
            ("He is the manager of the shop in Oslo", "She is the manager of the shop in Oslo"),
            ("He is the manager of the shop in Oslo", "He was the manager of the shop in Oslo"),
            ("The flight goes from Oslo to Rome", "The flight goes from Rome to Oslo"),
            ("The dog bit the man in the park", "The man bit the dog in the park"),
            ("He left the office.", "He left the office?"),
            ("他离开公司了吗", "他离开公司了"),
            ("他明天从北京去上海", "他明天从上海去北京"),
            // What one of them adds.
            ("She is allergic to peanuts", "She is allergic to peanuts and milk"),
            ("I drink tea every morning before work", "I drink coffee every morning before work"),
            ("I like this 👍", "I like this 👎"),
            ("The parser is written in C", "The parser is written in C++"),
        ] {
            assert_eq!(compare(left, right, 0.0), Verdict::Differs, "{left} / {right}");
            assert_eq!(compare(right, left, 0.0), Verdict::Differs, "{right} / {left}");
        }
    }

    #[test]
    fn other_words_are_another_memory() {
        assert!(matches!(compare("I like green tea", "She plays the piano", 0.85), Verdict::Unlike(_)));
    }

    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            3 => prop::sample::select(&["tea", "the", "not", "no", "Anna", "3", "10:35", "-4", "不", "喝", "茶", "的", "吗", "?"][..])
                .prop_map(str::to_owned),
            1 => "\\PC{0,4}",
            2 => prop::sample::select(&[" ", " ", ", ", ". ", "! ", "'", "-", "。"][..]).prop_map(str::to_owned),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 500, rng_seed: RngSeed::Fixed(0x7715), failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn comparing_is_symmetric_and_a_text_is_its_own_twin(left in texts(), right in texts(), least in 0.0..=1.0_f32) {
            prop_assert_eq!(compare(&left, &right, least), compare(&right, &left, least));
            prop_assert!(!matches!(compare(&left, &left, least), Verdict::Differs));
        }

        #[test]
        fn dress_never_tells_and_a_word_always_does(left in texts(), place in any::<prop::sample::Index>(),
                word in prop::sample::select(&["not", "anna", "7", "monday", "不", "三"][..])) {
            let words: Vec<&str> = left.split_whitespace().collect();
            let at = place.index(words.len() + 1);
            let with = |added: &str| {
                let mut words = words.clone();
                words.insert(at, added);
                words.join(" ")
            };
            let plain = words.join(" ");
            for dress in ["the", "Please", "啊", "!", "…", "\"", "(", "的。"] {
                prop_assert!(matches!(compare(&plain, &with(dress), 0.0), Verdict::Same(_)), "{} / {}", plain, with(dress));
            }
            prop_assert_eq!(compare(&plain, &with(word), 0.0), Verdict::Differs);
        }
    }
}
