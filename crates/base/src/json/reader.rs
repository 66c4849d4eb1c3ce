//! The tokens of a text that may be anything.

use super::fault::JsonFault;

/// A token, with the bytes that it was written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'t> {
    Open(u8),
    Close(u8),
    Colon,
    Comma,
    /// With its quotes and escapes.
    String(&'t str),
    Number(&'t str),
    /// `true`, `false` or `null`.
    Word(&'t str),
}

/// Reads tokens one after the other.
pub struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// What is wrong with the token that was read last, or with the end.
    pub fn unexpected(&self, token: Option<Token<'_>>) -> JsonFault {
        match token {
            None => JsonFault::Ended,
            Some(token) => JsonFault::Unexpected { at: self.at - token.bytes() },
        }
    }

    /// The next token; `None` at the end.
    pub fn token(&mut self) -> Result<Option<Token<'t>>, JsonFault> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        let Some(first) = bytes.get(self.at) else { return Ok(None) };
        let token = match first {
            b'{' | b'[' => Token::Open(*first),
            b'}' | b']' => Token::Close(*first),
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => Token::String(self.string()?),
            b'-' | b'0'..=b'9' => Token::Number(self.number()?),
            _ => {
                let rest = &self.text[self.at..];
                let words = ["true", "false", "null"];
                let word = words.iter().find(|word| rest.starts_with(**word));
                Token::Word(word.ok_or(JsonFault::Unexpected { at: self.at })?)
            }
        };
        self.at += token.bytes();
        if let (Token::Word(_) | Token::Number(_), Some(next)) = (token, bytes.get(self.at))
            && (next.is_ascii_alphanumeric() || matches!(next, b'_' | b'.' | b'+' | b'-' | 0x80..))
        {
            return Err(JsonFault::Unexpected { at: self.at - token.bytes() });
        }
        Ok(Some(token))
    }

    fn string(&self) -> Result<&'t str, JsonFault> {
        let bytes = self.text.as_bytes();
        let mut at = self.at + 1;
        loop {
            match bytes.get(at).ok_or(JsonFault::Ended)? {
                b'"' => return Ok(&self.text[self.at..=at]),
                0..0x20 => return Err(JsonFault::Control),
                b'\\' => match bytes.get(at + 1).ok_or(JsonFault::Ended)? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                    b'u' => {
                        let digits = bytes.get(at + 2..at + 6).ok_or(JsonFault::Ended)?;
                        if !digits.iter().all(u8::is_ascii_hexdigit) {
                            return Err(JsonFault::Escape);
                        }
                        at += 6;
                    }
                    _ => return Err(JsonFault::Escape),
                },
                _ => at += 1,
            }
        }
    }

    fn number(&self) -> Result<&'t str, JsonFault> {
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            let start = at;
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            if at > start { Ok(at) } else { Err(JsonFault::Unexpected { at: self.at }) }
        };
        let whole = self.at + usize::from(bytes[self.at] == b'-');
        let mut at = digits(whole)?;
        if bytes[whole] == b'0' && at > whole + 1 {
            return Err(JsonFault::Unexpected { at: self.at });
        }
        if bytes.get(at) == Some(&b'.') {
            at = digits(at + 1)?;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            at = digits(at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-'))))?;
        }
        Ok(&self.text[self.at..at])
    }
}

impl Token<'_> {
    fn bytes(self) -> usize {
        match self {
            Token::Open(_) | Token::Close(_) | Token::Colon | Token::Comma => 1,
            Token::String(text) | Token::Number(text) | Token::Word(text) => text.len(),
        }
    }
}
