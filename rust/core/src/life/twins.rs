//! Whether two texts may be folded into one: the second gate of the near-duplicate test, and the differences that
//! forbid it whatever the vectors say.

use std::collections::BTreeSet;

use crate::index::keywords::analyze;

/// What a comparison of two texts says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// They say the same in nearly the same words; the share of common tokens.
    Same(f32),
    /// Too few tokens are common; the share.
    Unlike(f32),
    /// A number, a date, a name, a negation or a word written in Han differs: each may be the whole point.
    Differs,
}

/// Words that turn a sentence round.
const NEGATIONS: [&str; 16] = [
    "not", "no", "never", "none", "nor", "without", "cannot", "can't", "don't", "doesn't", "didn't", "won't", "isn't",
    "wasn't", "aren't", "nothing",
];

/// Compares two texts; symmetric. `min_jaccard` is the share of common tokens from which they are the same.
pub fn compare(left: &str, right: &str, min_jaccard: f32) -> Verdict {
    let jaccard = analyze(left).jaccard(&analyze(right));
    if jaccard < min_jaccard {
        return Verdict::Unlike(jaccard);
    }
    if telling(left) != telling(right) || substitutes_han(left, right) {
        return Verdict::Differs;
    }
    Verdict::Same(jaccard)
}

/// The words of a text that may not differ: those with a digit, names (a capital that no sentence start explains),
/// and negations.
fn telling(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut starts_sentence = true;
    for chunk in text.split_whitespace() {
        let word = chunk.trim_matches(|mark: char| !mark.is_alphanumeric());
        let lower = word.to_lowercase().replace('\u{2019}', "'");
        let is_name = word.chars().next().is_some_and(char::is_uppercase) && !starts_sentence;
        if word.chars().any(char::is_numeric) || is_name || NEGATIONS.contains(&lower.as_str()) {
            words.insert(lower);
        }
        if !word.is_empty() {
            starts_sentence = chunk.ends_with(['.', '!', '?', ':']);
        }
    }
    words
}

fn is_han(letter: char) -> bool {
    matches!(letter, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Whether a Han character, or a digit among Han characters, stands on one side alone. Particles at the end of a
/// sentence do not count.
fn substitutes_han(left: &str, right: &str) -> bool {
    let letters = |text: &str| -> BTreeSet<char> {
        let particles = ['的', '了', '呢', '吗', '吧', '啊', '呀', '哦', '嘛', '哈'];
        text.chars().filter(|letter| (is_han(*letter) || letter.is_numeric()) && !particles.contains(letter)).collect()
    };
    letters(left) != letters(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_in_other_dress_is_the_same() {
        for (left, right) in [
            ("I like green tea in the morning.", "I like green tea in the morning"),
            ("我喜欢在早上喝绿茶。", "我喜欢在早上喝绿茶"),
            ("The report is due on Friday, please remember it", "The report is due on Friday; please remember it!"),
        ] {
            assert!(matches!(compare(left, right, 0.85), Verdict::Same(_)), "{left} / {right}");
        }
    }

    #[test]
    fn what_may_be_the_point_forbids_it() {
        for (left, right) in [
            ("The flight to Oslo leaves at 10:35 from gate B", "The flight to Oslo leaves at 10:45 from gate B"),
            (
                "Please always send the weekly report to Anna by mail",
                "Please always send the weekly report to Otto by mail",
            ),
            (
                "He does like the new plan for the office move a lot",
                "He does not like the new plan for the office move a lot",
            ),
            ("张主任喜欢正式的邮件语气，请注意格式", "李主任喜欢正式的邮件语气，请注意格式"),
            ("会议改到5月3日下午三点在二楼会议室", "会议改到5月4日下午三点在二楼会议室"),
        ] {
            assert_eq!(compare(left, right, 0.3), Verdict::Differs, "{left} / {right}");
            assert_eq!(compare(right, left, 0.3), Verdict::Differs, "{right} / {left}");
        }
    }

    #[test]
    fn other_words_are_another_memory() {
        assert!(matches!(compare("I like green tea", "She plays the piano", 0.85), Verdict::Unlike(_)));
    }
}
