//! Functions of a file with their lengths, and its lines without tests.

use std::collections::BTreeSet;

use crate::modules::{Token, length_of_group, tokens_of, without_tests};

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// Where `fn` stands, from 1.
    pub line: usize,
    /// From there to the closing brace.
    pub lines: usize,
}

/// The functions of a file, those within functions as well.
pub fn functions_of(text: &str) -> Vec<Function> {
    let tokens = tokens_of(text);
    let starts = tokens.windows(2).enumerate().filter(|(_, two)| two[0].text == "fn" && two[1].is_word());
    starts
        .filter_map(|(at, two)| Some((two, last_line(&tokens[at + 2..])?)))
        .map(|(two, last)| Function { name: two[1].text.clone(), line: two[0].line, lines: last + 1 - two[0].line })
        .collect()
}

/// Where the body ends; `None` of a declaration without one.
fn last_line(signature: &[Token]) -> Option<usize> {
    let mut at = 0;
    loop {
        match &*signature.get(at)?.text {
            ";" => return None,
            "{" => return signature[at..].get(length_of_group(&signature[at..]) - 1).map(|brace| brace.line),
            "(" | "[" => at += length_of_group(&signature[at..]),
            _ => at += 1,
        }
    }
}

/// Lines of a file, comments and blank lines too, but not those that only tests have code on.
pub fn lines_without_tests(text: &str) -> usize {
    let all = tokens_of(text);
    let lines = |tokens: &[Token]| tokens.iter().map(|token| token.line).collect::<BTreeSet<_>>();
    let with_code = lines(&all);
    let kept = lines(&without_tests(all).0);
    text.lines().count() - with_code.difference(&kept).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_as_long_as_from_its_name_to_its_brace() {
        let found = functions_of("trait T { fn a(); }\n\nfn b(x: [u8; 2])\nwhere\n{\n    { }\n}\nfn c() {}\n");
        let found: Vec<_> = found.iter().map(|found| (&*found.name, found.line, found.lines)).collect();
        assert_eq!(found, [("b", 3, 5), ("c", 8, 1)]);
    }

    #[test]
    fn lines_of_tests_do_not_count() {
        assert_eq!(lines_without_tests("// a\nfn b() {}\n\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n"), 3);
    }
}
