//! Rust code as words and signs, without what is compiled for tests only.

use crate::source::code_of;

/// A word or a sign, and its line from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

impl Token {
    /// Whether it is an identifier or a keyword.
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|first: char| first.is_alphabetic() || first == '_')
    }
}

/// Words and signs of `text`; `::` is one sign, every other sign one character.
pub fn tokens_of(text: &str) -> Vec<Token> {
    let part = |character: char| character.is_alphanumeric() || character == '_';
    let mut tokens = Vec::new();
    for (index, line) in code_of(text).lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                _ if part(first) => rest.find(|character| !part(character)).unwrap_or(rest.len()),
                _ if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            tokens.push(Token { text: rest[..length].to_owned(), line: index + 1 });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// `tokens` without the items, fields and statements under `#[cfg(test)]`, and the names of the files among them
/// (`#[cfg(test)] mod tests;`).
pub fn without_tests(tokens: Vec<Token>) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut files) = (Vec::with_capacity(tokens.len()), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        if !is_for_tests(&tokens[at..]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let item = &tokens[at..at + length_of_item(&tokens[at..])];
        let name = item.windows(3).find(|three| three[0].text == "mod" && three[2].text == ";");
        files.extend(name.map(|three| three[1].text.clone()));
        at += item.len();
    }
    (kept, files)
}

/// Whether an attribute begins here that holds for tests only.
fn is_for_tests(tokens: &[Token]) -> bool {
    let starts_with = |signs: &[&str]| {
        tokens.len() >= signs.len() && tokens.iter().zip(signs).all(|(token, sign)| token.text == *sign)
    };
    starts_with(&["#", "[", "test", "]"])
        || starts_with(&["#", "[", "cfg", "(", "test", ")", "]"])
        || starts_with(&["#", "[", "cfg", "(", "any", "(", "test", ","])
        || starts_with(&["#", "[", "cfg", "(", "all", "(", "test", ","])
}

/// Tokens of the item that begins with an attribute.
fn length_of_item(tokens: &[Token]) -> usize {
    let mut at = 0;
    while tokens.get(at).is_some_and(|token| token.text == "#") {
        at += 1 + length_of_group(&tokens[at + 1..]);
    }
    let ends_at_brace = !tokens[at..].iter().take(3).any(|token| matches!(&*token.text, "use" | "let" | "static"));
    while let Some(token) = tokens.get(at) {
        match &*token.text {
            ";" | "," => return at + 1,
            "}" => return at,
            "{" => {
                at += length_of_group(&tokens[at..]);
                if ends_at_brace {
                    return at;
                }
            }
            "(" | "[" => at += length_of_group(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

/// Tokens of what an opening bracket at the front encloses, with both brackets.
pub fn length_of_group(tokens: &[Token]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match &*token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth <= 0 {
            return at + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> String {
        let words: Vec<_> = without_tests(tokens_of(text)).0.into_iter().map(|token| token.text).collect();
        words.join(" ")
    }

    #[test]
    fn words_and_signs_keep_their_lines() {
        let tokens = tokens_of("use a::b; // c\n\"d\" x1");
        let found: Vec<_> = tokens.iter().map(|token| (&*token.text, token.line)).collect();
        assert_eq!(found, [("use", 1), ("a", 1), ("::", 1), ("b", 1), (";", 1), ("x1", 2)]);
    }

    #[test]
    fn what_is_for_tests_only_is_left_out() {
        assert_eq!(kept("a #[cfg(test)] mod tests { b { c } } d"), "a d");
        assert_eq!(kept("#[cfg(test)] use a::{b, c}; d"), "d");
        assert_eq!(kept("#[cfg(test)] #[allow(x)] fn f(a: [u8; 2]) -> u8 { 1 } d"), "d");
        assert_eq!(kept("struct S { #[cfg(test)] a: u8, b: u8 }"), "struct S { b : u8 }");
        assert_eq!(kept("struct S { b: u8, #[cfg(test)] a: u8 }"), "struct S { b : u8 , }");
        assert_eq!(kept("#[cfg(feature = x)] a"), "# [ cfg ( feature = x ) ] a");
    }

    #[test]
    fn files_of_tests_are_named() {
        assert_eq!(without_tests(tokens_of("#[cfg(test)]\nmod tests;\nmod a;")).1, ["tests"]);
        assert_eq!(without_tests(tokens_of("#[cfg(test)]\npub(crate) mod fixture;")).1, ["fixture"]);
    }
}
