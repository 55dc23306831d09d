//! The light stem of English words: plural, -ing, -ed, and the final e that they meet in. Words of other languages
//! in Latin letters pass through it as well; a wrong stem costs little, because the exact word is indexed beside it.

/// The stem of a lower-case word of ASCII letters, as the length of the prefix that stays and what is put behind it.
/// Anything else is its own stem.
pub(super) fn stem(word: &str) -> (usize, &'static str) {
    let bytes = word.as_bytes();
    if bytes.len() < 3 || !bytes.iter().all(u8::is_ascii_lowercase) {
        return (bytes.len(), "");
    }
    let (length, tail) = suffix(bytes);
    // hope, hoped and hoping meet in hop; be, see and die stay.
    if tail.is_empty() && length > 3 && bytes[length - 1] == b'e' && !is_vowel(bytes, length - 2) {
        return (length - 1, "");
    }
    if tail == "e" { (length, "") } else { (length, tail) }
}

fn suffix(bytes: &[u8]) -> (usize, &'static str) {
    let length = bytes.len();
    let plural = |singular: usize| (singular, "");
    if bytes.ends_with(b"ies") || bytes.ends_with(b"ied") {
        return if length > 4 { (length - 3, "y") } else { (length - 1, "") };
    }
    if bytes.ends_with(b"sses") || bytes.ends_with(b"xes") || bytes.ends_with(b"ches") || bytes.ends_with(b"shes") {
        return plural(length - 2);
    }
    if bytes[length - 1] == b's' && length > 3 && !matches!(bytes[length - 2], b's' | b'u' | b'i') {
        // "makings" is a plural of an -ing.
        return past(&bytes[..length - 1]);
    }
    past(bytes)
}

fn past(bytes: &[u8]) -> (usize, &'static str) {
    let length = bytes.len();
    let base = if bytes.ends_with(b"ing") && length > 5 {
        length - 3
    } else if bytes.ends_with(b"eed") {
        return (length, "");
    } else if bytes.ends_with(b"ed") && length > 4 {
        length - 2
    } else {
        return (length, "");
    };
    if !(0..base).any(|place| is_vowel(bytes, place)) {
        return (length, "");
    }
    let last = bytes[base - 1];
    if base > 3 && last == bytes[base - 2] && !matches!(last, b'l' | b's' | b'z' | b'f' | b'e' | b'o') {
        return (base - 1, "");
    }
    (base, "")
}

fn is_vowel(bytes: &[u8], place: usize) -> bool {
    matches!(bytes[place], b'a' | b'e' | b'i' | b'o' | b'u') || bytes[place] == b'y' && place > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> String {
        let (length, tail) = stem(word);
        format!("{}{tail}", &word[..length])
    }

    #[test]
    fn inflections_meet() {
        for group in [
            &["dog", "dogs"][..],
            &["hope", "hoped", "hopes", "hoping"],
            &["run", "runs", "running"],
            &["study", "studies", "studied", "studying"],
            &["box", "boxes", "boxed"],
            &["class", "classes"],
            &["watch", "watches", "watched", "watching"],
            &["stop", "stops", "stopped", "stopping"],
            &["call", "called", "calling", "calls"],
            &["date", "dates", "dated", "dating"],
            &["painting", "paintings", "paint", "painted"],
            &["agree", "agrees"],
        ] {
            for word in group {
                assert_eq!(of(word), of(group[0]), "{word}");
            }
        }
    }

    #[test]
    fn what_only_looks_inflected_stays() {
        for word in
            ["bus", "this", "us", "ring", "red", "sing", "king", "gas", "is", "news1", "über", "need", "bed", "thing"]
        {
            assert_eq!(of(word), word);
        }
        assert_ne!(of("university"), of("universe"));
    }
}
