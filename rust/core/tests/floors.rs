//! Reads the sources and fails on an import that goes up or sideways, and on what the core must not know.
//!
//! A room is a module at the top of the crate. It may name itself and rooms of lower floors. The reader below is a small tokenizer:
//! it skips comments and literals, follows `use` groups, and resolves `self` and `super` through files and inline modules, so
//! that a path is judged by where it leads and not by how it is written.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The floor of each room.
const FLOORS: [(&str, u32); 7] =
    [("base", 0), ("store", 1), ("rank", 1), ("index", 1), ("disk", 2), ("life", 3), ("engine", 4)];

/// Paths the core does not walk: time, surroundings and chance are arguments, Python is another crate, and the
/// crate's own name would lead around this test.
const FORBIDDEN: [&[&str]; 5] = [&["rand"], &["std", "env"], &["std", "time", "*"], &["std", "*"], &["tiermem_core"]];

/// Names that betray a clock or Python however they were brought in.
const FORBIDDEN_NAMES: [&str; 3] = ["pyo3", "SystemTime", "Instant"];

const FORBIDDEN_MACROS: [&str; 5] = ["println", "print", "eprintln", "eprint", "dbg"];

/// Words after which a `::` starts a path instead of continuing one.
const KEYWORDS: [&str; 11] = ["use", "return", "in", "as", "match", "if", "while", "dyn", "impl", "mut", "else"];

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    PathSeparator,
    Mark(char),
}

/// The tokens of a source with their lines.
struct Tokens(Vec<(Token, usize)>);

impl Tokens {
    /// Comments and literals are left out.
    fn of(source: &str) -> Self {
        let characters: Vec<char> = source.chars().collect();
        let (mut found, mut place, mut line) = (Vec::new(), 0, 1);
        while place < characters.len() {
            let (token, after) = next(&characters, place);
            found.extend(token.map(|token| (token, line)));
            let after = after.clamp(place + 1, characters.len());
            line += characters[place..after].iter().filter(|character| **character == '\n').count();
            place = after;
        }
        Self(found)
    }

    fn at(&self, place: usize) -> Option<&Token> {
        self.0.get(place).map(|token| &token.0)
    }

    fn before(&self, place: usize, distance: usize) -> Option<&Token> {
        place.checked_sub(distance).and_then(|place| self.at(place))
    }

    fn word(&self, place: usize) -> Option<&str> {
        match self.at(place) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Whether a path starts here: at a word that no path leads to and that a separator or an import makes a path.
    fn starts_path(&self, place: usize) -> bool {
        let is_word = |token: Option<&Token>, words: &[&str]| matches!(token, Some(Token::Word(word)) if words.contains(&&word[..]));
        let before = self.before(place, 2);
        let continues = self.before(place, 1) == Some(&Token::PathSeparator)
            && matches!(before, Some(Token::Word(_) | Token::Mark('>')))
            && !is_word(before, &KEYWORDS);
        let is_path = self.at(place + 1) == Some(&Token::PathSeparator) || is_word(self.before(place, 1), &["use"]);
        self.word(place).is_some() && !is_word(self.at(place), &KEYWORDS) && is_path && !continues
    }

    /// Every path that starts at `place`, groups spread out, and the place after them.
    fn paths(&self, mut place: usize) -> (Vec<Vec<String>>, usize) {
        let mut segments = Vec::new();
        loop {
            match self.at(place) {
                Some(Token::Word(word)) => segments.push(word.clone()),
                Some(Token::Mark('*')) => segments.push("*".into()),
                Some(Token::Mark('{')) => {
                    let (tails, after) = self.group(place + 1);
                    return (tails.into_iter().map(|tail| [segments.clone(), tail].concat()).collect(), after);
                }
                _ => return (vec![segments], place),
            }
            place += 1;
            if self.at(place) != Some(&Token::PathSeparator) {
                return (vec![segments], place);
            }
            place += 1;
        }
    }

    /// The paths of a group whose first one starts at `place`, and the place after its brace.
    fn group(&self, mut place: usize) -> (Vec<Vec<String>>, usize) {
        let mut found = Vec::new();
        loop {
            match self.at(place) {
                None | Some(Token::Mark('}')) => return (found, place + 1),
                Some(Token::Mark(',')) => place += 1,
                Some(Token::Word(word)) if word == "as" => place += 2,
                Some(_) => {
                    let (paths, after) = self.paths(place);
                    found.extend(paths);
                    place = after.max(place + 1);
                }
            }
        }
    }
}

/// The token at `place`, none for a comment, a literal or white space, and the place after it.
fn next(characters: &[char], place: usize) -> (Option<Token>, usize) {
    let at = |place: usize| characters.get(place).copied().unwrap_or('\0');
    let run = |start: usize, belongs: &dyn Fn(char) -> bool| {
        start + characters[start.min(characters.len())..].iter().take_while(|character| belongs(**character)).count()
    };
    match (at(place), at(place + 1)) {
        ('/', '/') => (None, run(place, &|character| character != '\n')),
        ('/', '*') => (None, end_of_comment(characters, place)),
        ('"', _) => (None, end_of_quoted(characters, place)),
        ('\'', second) if second == '\\' || at(place + 2) == '\'' => (None, end_of_quoted(characters, place)),
        (':', ':') => (Some(Token::PathSeparator), place + 2),
        (first, _) if first == '_' || first.is_alphanumeric() => {
            let end = run(place, &|character| character == '_' || character.is_alphanumeric());
            let word: String = characters[place..end].iter().collect();
            let quote = run(end, &|character| character == '#');
            match &word[..] {
                "r" | "br" | "cr" if at(quote) == '"' => (None, end_of_raw(characters, quote, quote - end)),
                // `r#name` is `name`.
                "r" if quote == end + 1 => (None, quote),
                _ => (Some(Token::Word(word)), end),
            }
        }
        (mark, _) => (Some(Token::Mark(mark)).filter(|_| !mark.is_whitespace()), place + 1),
    }
}

fn end_of_comment(characters: &[char], mut place: usize) -> usize {
    let mut depth = 0;
    while place < characters.len() {
        match characters[place..] {
            ['/', '*', ..] => (depth, place) = (depth + 1, place + 2),
            ['*', '/', ..] => (depth, place) = (depth - 1, place + 2),
            _ => place += 1,
        }
        if depth == 0 {
            break;
        }
    }
    place
}

fn end_of_quoted(characters: &[char], open: usize) -> usize {
    let mut place = open + 1;
    while place < characters.len() && characters[place] != characters[open] {
        place += if characters[place] == '\\' { 2 } else { 1 };
    }
    place + 1
}

fn end_of_raw(characters: &[char], quote: usize, hashes: usize) -> usize {
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let mut place = quote + 1;
    while place < characters.len() && !characters[place..].starts_with(&end) {
        place += 1;
    }
    place + end.len()
}

/// The room that a path written inside `module` leads to, `*` for the whole crate; `None` when it leaves the crate.
fn room_of(path: &[String], module: &[String]) -> Option<String> {
    let mut here = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.to_vec(),
        _ => return None,
    };
    for segment in path {
        match segment.as_str() {
            "crate" | "self" => {}
            "super" => drop(here.pop()),
            name => here.push(name.to_owned()),
        }
    }
    Some(here.into_iter().next().unwrap_or_else(|| "*".to_owned()))
}

fn floor(room: &str) -> Option<u32> {
    FLOORS.iter().find(|known| known.0 == room).map(|known| known.1)
}

/// Whether code in `module` may use this path.
fn is_lawful(path: &[String], module: &[String]) -> bool {
    let forbidden = FORBIDDEN
        .iter()
        .any(|start| path.len() >= start.len() && start.iter().zip(path).all(|(left, right)| left == right));
    let goes_down = room_of(path, module)
        .is_none_or(|room| room == module[0] || floor(&room) < floor(&module[0]) && floor(&room).is_some());
    goes_down && !forbidden
}

/// What is wrong with the source of `module`, one line each. The top of the crate may name everything.
fn faults(source: &str, module: &[&str]) -> Vec<String> {
    let module: Vec<String> = module.iter().map(|&name| name.to_owned()).collect();
    let tokens = Tokens::of(source);
    let mut faults = Vec::new();
    for (place, (token, line)) in tokens.0.iter().enumerate() {
        let Token::Word(word) = token else { continue };
        let is_macro = tokens.at(place + 1) == Some(&Token::Mark('!')) && FORBIDDEN_MACROS.contains(&&word[..]);
        if is_macro || FORBIDDEN_NAMES.contains(&&word[..]) {
            faults.push(format!("line {line}: {word}"));
        }
    }
    let Some(room) = module.first() else { return faults };
    if floor(room).is_none() {
        faults.push(format!("the room {room} stands on no floor"));
    }
    // For each block around the place, the name of the inline module that it is.
    let mut blocks: Vec<Option<String>> = Vec::new();
    let mut place = 0;
    while let Some(token) = tokens.at(place) {
        match token {
            Token::Mark('{') => {
                let is_module = matches!(tokens.before(place, 2), Some(Token::Word(word)) if word == "mod");
                blocks.push(tokens.word(place.saturating_sub(1)).filter(|_| is_module).map(str::to_owned));
            }
            Token::Mark('}') => drop(blocks.pop()),
            _ if tokens.starts_path(place) => {
                let inside: Vec<String> = module.iter().chain(blocks.iter().flatten()).cloned().collect();
                let (paths, after) = tokens.paths(place);
                let line = tokens.0[place].1;
                let unlawful = paths.iter().filter(|path| !is_lawful(path, &inside));
                faults.extend(unlawful.map(|path| format!("line {line}: {}", path.join("::"))));
                place = after;
                continue;
            }
            _ => {}
        }
        place += 1;
    }
    faults
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the sources can be listed") {
        let path = entry.expect("the sources can be listed").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn imports_go_down_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.sort();
    let mut report = String::new();
    let mut rooms = Vec::new();
    for file in &files {
        let inside = file.strip_prefix(&root).expect("it was found there").with_extension("");
        let mut module: Vec<&str> = inside.iter().map(|part| part.to_str().expect("file names are UTF-8")).collect();
        if matches!(module.last(), Some(&("mod" | "lib"))) {
            module.pop();
        }
        rooms.extend(module.first().map(|&room| room.to_owned()));
        for fault in faults(&fs::read_to_string(file).expect("sources are readable"), &module) {
            writeln!(report, "{}: {fault}", inside.display()).expect("a string takes it");
        }
    }
    assert!(report.is_empty(), "\n{report}");
    for (room, _) in FLOORS {
        assert!(rooms.iter().any(|found| found == room), "no source of {room} was read");
    }
}

#[test]
fn what_goes_up_or_sideways_is_seen() {
    let bad: &[(&[&str], &str)] = &[
        (&["rank"], "use crate::engine::Engine;"),
        (&["rank"], "use crate::store::Columns;"),
        (&["index", "vectors"], "use crate::rank;"),
        (&["base"], "pub(crate) use crate::store::Columns as Base;"),
        (&["rank", "fuse"], "use crate::{base::{Error, Row as R}, index::{keywords, vectors}};"),
        (&["rank", "fuse"], "use super::super::index::keywords;"),
        (&["rank", "fuse"], "use super::{decay, super::store};"),
        (&["rank"], "fn f() -> crate :: disk :: Disk { g() }"),
        (&["rank"], "mod tests { use super::super::life::Plan; }"),
        (&["rank"], "mod tests { fn f() {} use super::*; mod more { use super::super::super::life; } }"),
        (&["rank"], "use { std::fmt, crate::life };"),
        (&["disk"], "type A = Vec<crate::life::Plan>;"),
        (&["disk"], "fn f() { <crate::life::Plan as Trait>::f() }"),
        (&["disk"], "use crate::r#life::Plan;"),
        (&["life"], "use crate::*;"),
        (&["life"], "use crate as everything;"),
        (&["life"], "use tiermem_core::engine::Engine;"),
        (&["store"], "macro_rules! m { () => { $crate::engine::f() } }"),
        (&["cellar"], "use crate::base::Row;"),
        (&["life"], "use crate::cellar::Row;"),
        (&["base"], "use pyo3::prelude::*;"),
        (&["base"], "use std::time::{Duration, Instant};"),
        (&["base"], "let now = std::time::SystemTime::now();"),
        (&["base"], "use std::time::*;"),
        (&["base"], "use std::{collections::HashMap, env};"),
        (&["base"], "let root = std::env::temp_dir();"),
        (&["base"], "fn f() { println!(\"x\"); }"),
        (&["base"], "fn f() { std::eprintln! (\"x\") }"),
        (&["base"], "let x: u32 = rand::random();"),
        (&["base"], "use ::rand::Rng;"),
        (&["base"], "fn f() -> u32 { return ::rand::random(); }"),
        (&["base"], "let quote = '\"'; use crate::engine; let other = '\"';"),
        (&["base"], "let quote = '\\''; use crate::engine; let other = '\\'';"),
        (&["base"], "fn f<'a>(x: &'a str) { crate::engine::g(x) }"),
        (&["base"], "const A: &str = r#\"\"\"#; use crate::engine;"),
        (&["base"], "/* /* */ */ use crate::engine;"),
        (&[], "fn f() { println!() }"),
    ];
    for (module, source) in bad {
        assert!(!faults(source, module).is_empty(), "nothing seen in {source:?}");
    }
}

#[test]
fn what_is_allowed_passes() {
    let good: &[(&[&str], &str)] = &[
        (&["rank"], "use crate::base::{Error, Row};"),
        (&["rank", "fuse"], "use super::decay; use super::super::base::Row; use crate::rank::score;"),
        (&["rank"], "mod decay; pub use decay::strength; mod tests { use super::*; use crate::base::limits; }"),
        (&["engine"], "use crate::{base, disk::Disk, index::{keywords::*, vectors}, life, rank, store};"),
        (&["disk"], "use std::time::Duration; use std::{fs, io}; pub(crate) fn f() {} pub(super) fn g() {}"),
        (
            &["base"],
            "// use crate::engine;\n/// [`crate::engine`] println!\nconst A: &str = \"crate::engine::x \\\" rand::\";",
        ),
        (&["base"], "const A: &str = r\"crate::engine\"; const B: &str = r##\"\"# crate::engine\"##;"),
        (&["base"], "/* use crate::engine; /* nested */ println!() */ fn operand(brand: u8) -> u8 { brand }"),
        (&[], "pub mod engine; pub use engine::Engine; pub use crate::rank::score;"),
    ];
    for (module, source) in good {
        assert_eq!(faults(source, module), Vec::<String>::new(), "{source:?}");
    }
}

#[test]
fn a_fault_names_its_line_and_its_path() {
    let source = "//! Text.\n\nconst A: &str = \"two\nlines\";\nuse crate::{base::Row, engine::{Engine, plan}};\n";
    assert_eq!(faults(source, &["rank"]), ["line 5: crate::engine::Engine", "line 5: crate::engine::plan"]);
}
