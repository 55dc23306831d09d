//! Cuts a text into terms, for any language, without a dictionary.
//!
//! * A **word** gives its stem, and beside it the exact word where the two differ.
//! * A **run** of a script that is written without spaces (Han, Kana, Thai …) or that glues its particles to the word
//!   (Hangul) gives every pair of neighbours and every single character.
//! * A **compound** (`user_id`, `getUserName`, `INC-2024-0017`, `a.b@c.com`, `3.14`, `https://…`) gives itself whole, each
//!   segment between its strong joints (`/ @ :` …), and its parts.
//!
//! Time and number of terms are linear in the length of the text.

use xxhash_rust::xxh3::xxh3_64;

use super::function_words::{is_function_character, is_function_word};
use super::normalize::{lowercase, normalize, without_accents};
use super::stem::stem;

/// What a term is of its text. The index treats all alike; a query weighs them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The stem of a word that stands by itself.
    Word,
    /// A word that carries grammar and little else.
    Function,
    /// A word as it was written, where the stem differs, and words with a hyphen as one. Follows what it is a form of.
    Exact,
    /// Two neighbours of a run, or a run of one character.
    Pair,
    /// Two neighbours of which one carries grammar.
    HalfPair,
    /// Two neighbours that both carry grammar.
    FunctionPair,
    /// One character of a longer run.
    Single,
    /// One character that carries grammar.
    FunctionSingle,
    /// A compound or a segment of one.
    Whole,
    /// A part of a compound.
    Part,
}

/// One term of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) hash: u64,
    pub(super) kind: Kind,
    /// Whether it counts in the length of the text.
    pub(super) counted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Upper,
    Lower,
    Digit,
    /// Belongs to the letter before it.
    Mark,
    /// Of a script that is cut into pairs.
    Run,
    Other,
}

fn class(character: char) -> Class {
    match character {
        'a'..='z' => Class::Lower,
        'A'..='Z' => Class::Upper,
        '0'..='9' => Class::Digit,
        '\0'..='\x7f' => Class::Other,
        '\u{4e00}'..='\u{9fff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{3096}'
        | '\u{309d}'..='\u{309f}'
        | '\u{30a1}'..='\u{30fa}'
        | '\u{30fc}'..='\u{30ff}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => Class::Run,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => {
            if character.is_alphabetic() || unicode_normalization::char::is_combining_mark(character) {
                Class::Run
            } else if character.is_numeric() {
                Class::Digit
            } else {
                Class::Other
            }
        }
        _ if character.is_uppercase() => Class::Upper,
        _ if character.is_alphabetic() => Class::Lower,
        _ if character.is_numeric() => Class::Digit,
        _ if unicode_normalization::char::is_combining_mark(character) => Class::Mark,
        _ => Class::Other,
    }
}

impl Class {
    fn is_word(self) -> bool {
        matches!(self, Self::Upper | Self::Lower | Self::Digit | Self::Mark)
    }
}

/// What a character between two letters or digits does to them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    /// Joins within a segment.
    Weak,
    /// Joins segments.
    Strong,
    None,
}

fn joint(character: char) -> Joint {
    match character {
        '.' | '-' | '_' | '\u{2010}' | ',' | '\'' => Joint::Weak,
        '/' | '@' | ':' | '&' | '\\' | '=' | '?' | '#' | '%' | '~' | '+' | ';' | '!' => Joint::Strong,
        _ => Joint::None,
    }
}

/// Gives every term of the text to `take`, in the order of the text.
pub(super) fn tokenize(text: &str, take: impl FnMut(Token)) {
    let text = normalize(text);
    Scanner { text: &text, take, scratch: String::new(), folded: String::new() }.scan();
}

struct Scanner<'a, F> {
    text: &'a str,
    take: F,
    scratch: String,
    folded: String,
}

impl<F: FnMut(Token)> Scanner<'_, F> {
    fn scan(&mut self) {
        let mut place = 0;
        while let Some(character) = self.text[place..].chars().next() {
            place = match class(character) {
                Class::Run => self.run(place),
                Class::Upper | Class::Lower | Class::Digit => self.chunk(place),
                Class::Mark | Class::Other => place + character.len_utf8(),
            };
        }
    }

    fn emit(&mut self, term: &str, kind: Kind, counted: bool) {
        (self.take)(Token { hash: xxh3_64(term.as_bytes()), kind, counted });
    }

    /// The run that begins at `start`; gives its end.
    fn run(&mut self, start: usize) -> usize {
        let text = self.text;
        let mut previous: Option<(usize, bool)> = None;
        let mut place = start;
        let mut length = 0;
        // A mark that did not compose ends the run: no pair reaches across it.
        for character in text[start..].chars().take_while(|character| class(*character) == Class::Run) {
            let end = place + character.len_utf8();
            let grammar = is_function_character(character);
            if let Some((before, grammar_before)) = previous {
                if length == 1 {
                    self.emit(&text[start..place], single(grammar_before), true);
                }
                let kind = match u8::from(grammar) + u8::from(grammar_before) {
                    0 => Kind::Pair,
                    1 => Kind::HalfPair,
                    _ => Kind::FunctionPair,
                };
                self.emit(&text[before..end], kind, false);
                self.emit(&text[place..end], single(grammar), true);
            }
            length += 1;
            previous = Some((place, grammar));
            place = end;
        }
        if length == 1 {
            self.emit(&text[start..place], Kind::Pair, true);
        }
        place
    }

    /// The letters and digits that begin at `start`, with what their joints join to them; gives their end.
    fn chunk(&mut self, start: usize) -> usize {
        let text = self.text;
        let bytes = text.as_bytes();
        let mut place = self.atom_end(start);
        let mut strong = false;
        let mut weak = false;
        let mut address = false;
        while let Some(character) = text[place..].chars().next() {
            let joint = joint(character);
            if joint == Joint::None {
                break;
            }
            let mut next = place + character.len_utf8();
            if character == '\'' {
                let end = self.atom_end(next);
                let clitic = &text[next..end];
                // The clitics of English are no words of their own, and "don't" is one word.
                if ["s", "re", "ve", "ll", "d", "m"].iter().any(|known| clitic.eq_ignore_ascii_case(known)) {
                    self.compound(start, place, strong, weak);
                    return end;
                }
                if clitic.eq_ignore_ascii_case("t") && bytes[place - 1].eq_ignore_ascii_case(&b'n') && !strong && !weak
                {
                    self.scratch.clear();
                    lowercase(&text[start..place], &mut self.scratch);
                    self.scratch.push('t');
                    self.emit_scratch(if is_function_word(&self.scratch) { Kind::Function } else { Kind::Word }, true);
                    return end;
                }
            }
            let held = match character {
                ',' => is_thousands(bytes, place),
                ':' if text[place..].starts_with("://") => {
                    address = true;
                    next += 2;
                    true
                }
                ':' => address || bytes[place - 1].is_ascii_digit() && bytes.get(next).is_some_and(u8::is_ascii_digit),
                '=' | '?' | '#' | '%' | '~' | '+' | ';' | '!' => address,
                '_' => {
                    next += text[next..].bytes().take_while(|byte| *byte == b'_').count();
                    true
                }
                _ => true,
            };
            // Inside an address joints may stand side by side: "…/?q=".
            while address
                && let Some(neighbour) = text[next..].chars().next()
                && self::joint(neighbour) != Joint::None
            {
                next += neighbour.len_utf8();
            }
            let end = self.atom_end(next);
            if !held || end == next {
                break;
            }
            strong |= joint == Joint::Strong;
            weak |= joint == Joint::Weak;
            place = end;
        }
        // C++, C#, F#.
        if place - start <= 2 && !strong && !weak {
            for tail in ["++", "#"] {
                if text[place..].starts_with(tail)
                    && !text[place + tail.len()..].starts_with(|next| class(next).is_word())
                {
                    let end = place + tail.len();
                    self.scratch.clear();
                    lowercase(&text[start..end], &mut self.scratch);
                    self.emit_scratch(Kind::Whole, false);
                    self.atom(start, place, true);
                    return end;
                }
            }
        }
        self.compound(start, place, strong, weak);
        place
    }

    fn atom_end(&self, start: usize) -> usize {
        let rest = &self.text[start..];
        rest.char_indices()
            .find(|(_, character)| !class(*character).is_word())
            .map_or(self.text.len(), |(place, _)| start + place)
    }

    fn emit_scratch(&mut self, kind: Kind, counted: bool) {
        let hash = xxh3_64(self.scratch.as_bytes());
        (self.take)(Token { hash, kind, counted });
    }

    fn compound(&mut self, start: usize, end: usize, strong: bool, weak: bool) {
        if !strong {
            self.segment(start, end, weak, false);
            return;
        }
        self.whole(start, end, Kind::Whole);
        let text = self.text;
        let mut place = start;
        for segment in text[start..end].split(|character| joint(character) == Joint::Strong) {
            let after = place + segment.len();
            let trimmed = segment.trim_matches(|character| joint(character) == Joint::Weak);
            if !trimmed.is_empty() {
                let first = place
                    + (segment.len() - segment.trim_start_matches(|character| joint(character) == Joint::Weak).len());
                self.segment(
                    first,
                    first + trimmed.len(),
                    trimmed.contains(|character| joint(character) == Joint::Weak),
                    true,
                );
            }
            place = after + 1; // Strong joints are ASCII.
        }
    }

    /// A compound without strong joints, or one atom.
    fn segment(&mut self, start: usize, end: usize, weak: bool, part: bool) {
        if !weak {
            self.atom(start, end, part);
            return;
        }
        let text = self.text;
        // "well-known" is two words as well as one; an id is one thing.
        let words = !part
            && text[start..end].chars().all(|character| {
                matches!(character, '-' | '\u{2010}' | '\'')
                    || matches!(class(character), Class::Upper | Class::Lower | Class::Mark)
            });
        if !words {
            self.whole(start, end, Kind::Whole);
        }
        let mut place = start;
        for atom in text[start..end].split(|character| joint(character) == Joint::Weak) {
            if !atom.is_empty() {
                self.atom(place, place + atom.len(), !words);
            }
            place += atom.len();
            place += text[place..end].chars().next().map_or(0, char::len_utf8);
        }
        if words {
            self.whole(start, end, Kind::Exact);
        }
    }

    /// A compound as it stands, without the commas that group digits and the apostrophe of "don't".
    fn whole(&mut self, start: usize, end: usize, kind: Kind) {
        self.scratch.clear();
        lowercase(&self.text[start..end], &mut self.scratch);
        self.scratch.retain(|character| !matches!(character, ',' | '\''));
        self.emit_scratch(kind, false);
    }

    /// Letters and digits without a joint, cut where the case or the kind changes.
    fn atom(&mut self, start: usize, end: usize, part: bool) {
        let text = self.text;
        let mut cut = start;
        let mut before = Class::Other;
        let mut earlier_upper = None;
        let mut cuts = 0;
        for (offset, character) in text[start..end].char_indices() {
            let here = start + offset;
            let now = class(character);
            if now == Class::Mark {
                continue;
            }
            let border = match (before, now) {
                // The last capital of HTTPServer begins the next word.
                (Class::Upper, Class::Lower) => earlier_upper.filter(|place| *place > cut),
                (Class::Lower, Class::Upper | Class::Digit)
                | (Class::Upper, Class::Digit)
                | (Class::Digit, Class::Upper | Class::Lower) => Some(here),
                _ => None,
            };
            if let Some(border) = border {
                if cuts == 0 {
                    self.word(start, end, Kind::Whole);
                }
                self.word(cut, border, Kind::Part);
                cut = border;
                cuts += 1;
            }
            earlier_upper = (now == Class::Upper).then_some(here);
            before = now;
        }
        self.word(cut, end, if part || cuts > 0 { Kind::Part } else { Kind::Word });
    }

    /// One word: its stem and, where it differs, itself.
    fn word(&mut self, start: usize, end: usize, kind: Kind) {
        self.scratch.clear();
        lowercase(&self.text[start..end], &mut self.scratch);
        let exact = xxh3_64(self.scratch.as_bytes());
        let kind = if kind == Kind::Word && is_function_word(&self.scratch) { Kind::Function } else { kind };
        let stemmed = if self.scratch.is_ascii() {
            if self.scratch.len() > 1
                && self.scratch.starts_with('0')
                && self.scratch.bytes().all(|byte| byte.is_ascii_digit())
            {
                // 05 is also 5, and 0017 is also 17.
                (self.take)(Token { hash: exact, kind: Kind::Whole, counted: false });
                let value = self.scratch.trim_start_matches('0');
                let value = xxh3_64(if value.is_empty() { "0" } else { value }.as_bytes());
                (self.take)(Token { hash: value, kind: Kind::Part, counted: kind != Kind::Whole });
                return;
            }
            let (length, tail) = stem(&self.scratch);
            self.scratch.truncate(length);
            self.scratch.push_str(tail);
            xxh3_64(self.scratch.as_bytes())
        } else {
            self.folded.clear();
            without_accents(&self.scratch, &mut self.folded);
            let (length, tail) = stem(&self.folded);
            self.folded.truncate(length);
            self.folded.push_str(tail);
            xxh3_64(self.folded.as_bytes())
        };
        (self.take)(Token { hash: stemmed, kind, counted: kind != Kind::Whole });
        if stemmed != exact {
            (self.take)(Token { hash: exact, kind: Kind::Exact, counted: false });
        }
    }
}

fn single(grammar: bool) -> Kind {
    if grammar { Kind::FunctionSingle } else { Kind::Single }
}

/// Whether the comma at `place` groups digits, as in 12,000.
fn is_thousands(bytes: &[u8], place: usize) -> bool {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    digit(place - 1) && (1..=3).all(|step| digit(place + step)) && !digit(place + 4)
}
