//! Rust source without what is not code: comments and literals become blanks, lines stay lines.

/// The code of `text`, character for character in place.
pub fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest, 1),
            'r' | 'b' if !code.ends_with(|before: char| before.is_alphanumeric() || before == '_') => {
                prefixed_literal(rest).unwrap_or(0)
            }
            '\'' => character(rest),
            _ => 0,
        };
        let taken = if skipped == 0 { first.len_utf8() } else { skipped };
        if skipped == 0 {
            code.push(first);
        } else {
            code.extend(rest[..taken].chars().map(|gone| if gone == '\n' { '\n' } else { ' ' }));
        }
        rest = &rest[taken..];
    }
    code
}

/// Whether `line` has `word`, not as a part of a longer one.
pub fn has_word(line: &str, word: &str) -> bool {
    let part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

/// Bytes of a block comment; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Bytes of a literal whose opening quote ends at `start`.
fn quoted(text: &str, start: usize) -> usize {
    let mut escaped = false;
    for (at, character) in text[start..].char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return start + at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of `r"…"`, `r#"…"#`, `b"…"`, `br"…"`, `b'…'`; `None` if it is none of them.
fn prefixed_literal(text: &str) -> Option<usize> {
    let prefix = ["br", "r", "b"].into_iter().find(|prefix| text.starts_with(prefix))?;
    let after = &text[prefix.len()..];
    let hashes = after.chars().take_while(|character| *character == '#').count();
    match after[hashes..].chars().next()? {
        '"' if prefix == "b" && hashes == 0 => Some(quoted(text, prefix.len() + 1)),
        '"' if prefix != "b" => {
            let closing = format!("\"{}", "#".repeat(hashes));
            let start = prefix.len() + hashes + 1;
            Some(text[start..].find(&closing).map_or(text.len(), |at| start + at + closing.len()))
        }
        '\'' if prefix == "b" && hashes == 0 => Some(1 + character(&text[1..])),
        _ => None,
    }
}

/// Bytes of a character literal, or 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((escaped, _))) => text[escaped + 1..].find('\'').map_or(0, |at| escaped + 1 + at + 1),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        let text = "a // unsafe\n\"unsafe \\\" unsafe\" b /* unsafe /* unsafe */ */ c r#\"unsafe\"# 'u' '\\'' b'\"' d";
        let code = code_of(text);
        assert!(!has_word(&code, "unsafe"), "{code}");
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(code.lines().count(), text.lines().count());
        assert_eq!(code_of("fn f<'a>(x: &'a str) { unsafe {} }"), "fn f<'a>(x: &'a str) { unsafe {} }");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe {", "unsafe") && has_word("(unsafe{", "unsafe"));
        assert!(!has_word("deny(unsafe_code)", "unsafe") && !has_word("not_unsafe", "unsafe"));
    }
}
