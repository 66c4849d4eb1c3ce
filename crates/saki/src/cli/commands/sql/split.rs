//! Cutting what is typed or read into statements, without parsing it.
//!
//! A statement ends with a semicolon outside quotes, comments and
//! dollar-quoted text; only then is it worth the parser's while.

/// What an unfinished statement waits for, for the prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// Nothing but space and comments.
    Nothing,
    Statement,
    SingleQuote,
    DoubleQuote,
    DollarQuote,
    Comment,
    Parenthesis,
}

/// The statements of `text`, without their semicolons, and what comes after the last one.
pub fn split(text: &str) -> (Vec<&str>, &str, Open) {
    let mut statements = Vec::new();
    let mut rest = text;
    loop {
        let (end, open) = scan(rest);
        let Some(end) = end else { return (statements, rest, open) };
        if open != Open::Nothing {
            statements.push(&rest[..end]);
        }
        rest = &rest[end + 1..];
    }
}

/// Where the first statement's semicolon is, and the state there or at the end of the text.
fn scan(text: &str) -> (Option<usize>, Open) {
    let bytes = text.as_bytes();
    let mut open = Open::Nothing;
    let mut depth = 0_u32;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let skipped = match bytes[at] {
            b';' => {
                return (Some(at), if open == Open::Nothing { Open::Nothing } else { Open::Statement });
            }
            b'\'' => {
                let escapes = at > 0 && matches!(bytes[at - 1], b'e' | b'E') && !word_before(text, at - 1);
                quoted(rest, b'\'', escapes).ok_or(Open::SingleQuote)
            }
            b'"' => quoted(rest, b'"', false).ok_or(Open::DoubleQuote),
            b'$' if !word_before(text, at) => dollar_quoted(rest),
            b'-' if rest.starts_with("--") => {
                at += rest.find('\n').map_or(rest.len(), |end| end + 1);
                continue;
            }
            b'/' if rest.starts_with("/*") => match comment(rest) {
                Some(length) => {
                    at += length;
                    continue;
                }
                None => return (None, Open::Comment),
            },
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            byte => {
                match byte {
                    b'(' => depth += 1,
                    b')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                Ok(rest.chars().next().map_or(1, char::len_utf8))
            }
        };
        match skipped {
            Ok(length) => at += length,
            Err(unclosed) => return (None, unclosed),
        }
        open = Open::Statement;
    }
    (None, if depth > 0 { Open::Parenthesis } else { open })
}

/// Whether a name or number ends before `at`.
fn word_before(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

/// Length of a quoted text that begins `text`; doubled quotes stay inside.
fn quoted(text: &str, quote: u8, escapes: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escapes => at += 1,
            byte if byte == quote => {
                if bytes.get(at + 1) != Some(&quote) {
                    return Some(at + 1);
                }
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Length of `$tag$ … $tag$`; of the dollar alone if it begins no tag.
fn dollar_quoted(text: &str) -> Result<usize, Open> {
    let Some(end) = text[1..].find('$') else { return Ok(1) };
    let tag = &text[..end + 2];
    let name = &tag[1..tag.len() - 1];
    if !name.chars().all(|c| c.is_alphanumeric() || c == '_') || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(1);
    }
    text[tag.len()..].find(tag).map(|at| at + 2 * tag.len()).ok_or(Open::DollarQuote)
}

/// Length of a comment; they nest.
fn comment(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" => {
                (at, depth) = (at + 2, depth - 1);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_inside_do_not_end_a_statement() {
        let text = "select ';', \";\", E'\\';', $$;$$, $t$;$$;$t$ -- ;\n /* ; /* ; */ ; */ ; second; ; rest";
        let (statements, rest, open) = split(text);
        assert_eq!(statements.len(), 2, "{statements:?}");
        assert_eq!(statements[1].trim(), "second");
        assert_eq!((rest.trim(), open), ("rest", Open::Statement));
    }

    #[test]
    fn the_state_at_the_end_is_known() {
        for (text, open) in [
            ("", Open::Nothing),
            ("-- nothing", Open::Nothing),
            ("select 1; ", Open::Nothing),
            ("select", Open::Statement),
            ("select 'it''s", Open::SingleQuote),
            ("select \"a", Open::DoubleQuote),
            ("select $x$ ;", Open::DollarQuote),
            ("select /* ;", Open::Comment),
            ("select (1,", Open::Parenthesis),
            ("select $1, '先駆け", Open::SingleQuote),
        ] {
            assert_eq!(split(text).2, open, "{text}");
        }
    }
}
