//! One spelling for each text: NFKC, one apostrophe, nothing invisible. Case is kept, because the borders inside
//! `getUserName` are read from it; [`lowercase`] folds it afterwards.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// The text as the scanner reads it. Takes time linear in its length.
pub(super) fn normalize(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    // NFKC costs some tens of nanoseconds a character. Most texts consist of characters that it leaves alone or
    // replaces one by one, and that only a character outside this set could make it compose.
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        match simple(character) {
            Some(character) => folded.push(character),
            None => return Cow::Owned(text.nfkc().filter_map(visible).collect()),
        }
    }
    Cow::Owned(folded)
}

/// What NFKC and [`visible`] make of a character that never combines with a neighbour; `None` for any other.
#[inline]
fn simple(character: char) -> Option<char> {
    match character {
        '\0'..='\x7f'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{3041}'..='\u{3096}'
        | '\u{30a1}'..='\u{30fc}'
        | '\u{3001}'..='\u{3029}'
        | '\u{ac00}'..='\u{d7a3}'
        | 'à'..='ö'
        | 'ø'..='ÿ'
        | 'À'..='Ö'
        | 'Ø'..='Þ'
        | 'ß'
        | 'Ѐ'..='џ'
        | '\u{2010}'
        | '\u{2012}'..='\u{2015}'
        | '\u{201c}'..='\u{201d}'
        | '\u{20ac}'
        | '¥'
        | '£' => Some(character),
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(character as u32 - 0xfee0),
        '\u{2018}' | '\u{2019}' => Some('\''),
        _ => None,
    }
}

/// Drops what is not seen (joiners, variation selectors, marks of direction) and unifies apostrophes.
#[inline]
fn visible(character: char) -> Option<char> {
    match character {
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{640}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{e0000}'..='\u{e0fff}' => None,
        '\u{2018}' | '\u{2019}' | '\u{2bc}' => Some('\''),
        _ => Some(character),
    }
}

/// Appends the word in lower case, with the two foldings that lower case leaves out (ß and final sigma).
pub(super) fn lowercase(word: &str, into: &mut String) {
    if word.is_ascii() {
        let start = into.len();
        into.push_str(word);
        into[start..].make_ascii_lowercase();
        return;
    }
    for character in word.chars() {
        match character {
            'ß' | 'ẞ' => into.push_str("ss"),
            'ς' => into.push('σ'),
            _ => into.extend(character.to_lowercase()),
        }
    }
}

/// Appends the lower-case word without what people leave out when they type: accents on Latin and Greek letters,
/// the marks of Arabic and Hebrew vowels, and the two dots of ё.
pub(super) fn without_accents(word: &str, into: &mut String) {
    let mut base = '\0';
    let kept = word.nfd().filter(|character| match character {
        '\u{300}'..='\u{36f}' => matches!(base, 'и' | 'у' | 'і'),
        '\u{591}'..='\u{5c7}' | '\u{64b}'..='\u{655}' | '\u{670}' => false,
        _ => {
            base = *character;
            true
        }
    });
    into.extend(kept.nfc());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slowly(text: &str) -> String {
        text.nfkc().filter_map(visible).collect()
    }

    proptest! {
        #[test]
        fn the_short_way_gives_what_nfkc_gives(text in any::<String>()) {
            prop_assert_eq!(normalize(&text), slowly(&text));
        }

        #[test]
        fn also_where_texts_really_live(text in "[a-zé’\u{301}\u{3099}か-ごハﾊﾞ，！１Ａ中文가-각\u{11a8}й\u{200d}“”—¥]{0,24}") {
            prop_assert_eq!(normalize(&text), slowly(&text));
        }
    }

    #[test]
    fn every_simple_character_is_left_alone_by_nfkc() {
        for character in (0..=0x0010_ffff).filter_map(char::from_u32) {
            if let Some(folded) = simple(character) {
                assert_eq!(folded.to_string(), slowly(&character.to_string()), "{character:?}");
                // Two of them side by side must not compose either: that takes a mark or a trailing jamo.
                assert_eq!(unicode_normalization::char::canonical_combining_class(character), 0);
                assert_ne!(
                    unicode_normalization::is_nfkc_quick(std::iter::once(folded)),
                    unicode_normalization::IsNormalized::Maybe
                );
            }
        }
    }

    #[test]
    fn accents_fall_and_letters_stay() {
        let of = |word: &str| {
            let mut folded = String::new();
            without_accents(word, &mut folded);
            folded
        };
        assert_eq!(of("café"), "cafe");
        assert_eq!(of("cafe\u{301}"), "cafe");
        assert_eq!(of("ёлка"), "елка");
        assert_eq!(of("йод"), "йод");
        assert_eq!(of("مُحَمَّد"), "محمد");
        assert_eq!(of("ñandú"), "nandu");
    }

    #[test]
    fn case_folds() {
        let mut folded = String::new();
        lowercase("STRASSE Straße ΣΊΣΥΦΟΣ ДОМ", &mut folded);
        assert_eq!(folded, "strasse strasse σίσυφοσ дом");
    }
}
