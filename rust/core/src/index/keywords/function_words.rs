//! The words that carry grammar and little else. Inverse document frequency finds them in a large store; in a small one, where
//! "the" may stand in a third of the texts and "guitar" in none, a query needs to know them beforehand.

/// Whether the lower-case word (without apostrophes) is a function word of English.
pub(super) fn is_function_word(word: &str) -> bool {
    word.len() <= 10 && ENGLISH.binary_search(&word).is_ok()
}

/// Whether the character mostly serves grammar: Chinese particles, pronouns, auxiliaries and measure words, Japanese particles.
pub(super) fn is_function_character(character: char) -> bool {
    CHARACTERS.contains(character)
}

const CHARACTERS: &str = "的了吗呢吧啊呀嘛哦是我你您他她它们在有和与就不都也很这那哪个么什怎谁为把被让给对从到要会能可以还又再但而或如果因所着过得地之其些啥没\
                          はがをにのでともへやか";

/// Ascending.
const ENGLISH: [&str; 138] = [
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "but", "by", "can", "cant", "could", "couldnt", "did", "didnt", "do", "does", "doesnt",
    "doing", "dont", "down", "during", "each", "for", "from", "further", "had", "has", "hasnt", "have", "havent",
    "having", "he", "hello", "her", "here", "hers", "hey", "hi", "him", "his", "how", "i", "if", "in", "into", "is",
    "isnt", "it", "its", "just", "let", "me", "more", "most", "my", "no", "nor", "not", "now", "of", "off", "oh", "ok",
    "okay", "on", "once", "only", "or", "other", "our", "ours", "out", "over", "own", "really", "same", "she",
    "should", "shouldnt", "so", "some", "such", "than", "that", "the", "their", "theirs", "them", "then", "there",
    "these", "they", "this", "those", "through", "to", "too", "under", "until", "up", "us", "very", "was", "wasnt",
    "we", "were", "werent", "what", "when", "where", "which", "while", "who", "whom", "whose", "why", "will", "with",
    "wont", "would", "wouldnt", "yeah", "yes", "you", "your", "yours",
];
