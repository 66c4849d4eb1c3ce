//! What a client says. Nothing here panics, whatever the bytes.

use std::fmt;

use crate::failure::Failure;

/// Bytes before a connection is authenticated: a startup packet or a password has no reason to be longer.
pub const STARTUP_BYTES_MAX: usize = 10_000;

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// Bytes that are not the protocol; the connection cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for Failure {
    fn from(error: Malformed) -> Self {
        Self::fatal("08P01", error.0)
    }
}

type Result<T> = std::result::Result<T, Malformed>;

fn malformed<T>(what: impl Into<String>) -> Result<T> {
    Err(Malformed(what.into()))
}

/// Length of the first message in `bytes`, its type included; `None` if it is not complete.
///
/// # Errors
/// A length that is none, or above `max`.
pub fn message_bytes(bytes: &[u8], max: usize) -> Result<Option<usize>> {
    let Some(header) = bytes.first_chunk::<5>() else { return Ok(None) };
    let [_, a, b, c, d] = *header;
    complete(bytes.len(), u32::from_be_bytes([a, b, c, d]), 1, max)
}

/// The same for the packets that open a connection, which have no type.
pub fn packet_bytes(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    complete(bytes.len(), u32::from_be_bytes(*length), 0, STARTUP_BYTES_MAX)
}

fn complete(have: usize, length: u32, before: usize, max: usize) -> Result<Option<usize>> {
    let length = length as usize;
    if length < 4 || length > max {
        return malformed(format!("invalid length {length} of a message; from 4 to {max} bytes are allowed"));
    }
    Ok((have >= length + before).then_some(length + before))
}

/// What opens a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Opening<'a> {
    Ssl,
    Gss,
    Cancel {
        process: i32,
        secret: &'a [u8],
    },
    /// Names and values; the version's minor number.
    Startup {
        minor: u16,
        parameters: Vec<(&'a str, &'a str)>,
    },
}

impl<'a> Opening<'a> {
    /// Reads a whole packet, its length included.
    ///
    /// # Errors
    /// Another protocol, or bytes that are none.
    pub fn read(packet: &'a [u8]) -> Result<Self> {
        let mut body = Body(packet.get(4..).unwrap_or_default());
        let code = body.u32()?;
        match code {
            SSL_REQUEST => Ok(Self::Ssl),
            GSS_REQUEST => Ok(Self::Gss),
            CANCEL_REQUEST => Ok(Self::Cancel { process: body.u32()? as i32, secret: body.0 }),
            _ if code >> 16 == 3 => {
                let mut parameters = Vec::new();
                loop {
                    let name = body.text()?;
                    if name.is_empty() {
                        return Ok(Self::Startup { minor: code as u16, parameters });
                    }
                    parameters.push((name, body.text()?));
                }
            }
            _ => malformed(format!("unsupported frontend protocol {}.{}", code >> 16, code & 0xffff)),
        }
    }
}

/// A statement or a portal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frontend<'a> {
    Query(&'a str),
    Parse {
        name: &'a str,
        sql: &'a str,
        types: Numbers<'a, 4>,
    },
    Bind {
        portal: &'a str,
        statement: &'a str,
        formats: Numbers<'a, 2>,
        values: Values<'a>,
        results: Numbers<'a, 2>,
    },
    Describe(Target<'a>),
    /// At most `limit` rows; 0 for all.
    Execute {
        portal: &'a str,
        limit: u32,
    },
    Close(Target<'a>),
    Flush,
    Sync,
    Terminate,
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail(&'a str),
    /// A password, or a part of SCRAM.
    Password(&'a [u8]),
}

impl<'a> Frontend<'a> {
    /// Reads a whole message, its type and length included.
    ///
    /// # Errors
    /// An unknown type, or a body that is not as its type says.
    pub fn read(message: &'a [u8]) -> Result<Self> {
        let (Some(kind), Some(body)) = (message.first(), message.get(5..)) else {
            return malformed("a message without a length");
        };
        let mut body = Body(body);
        let read = match kind {
            b'Q' => Self::Query(body.text()?),
            b'P' => Self::Parse { name: body.text()?, sql: body.text()?, types: body.numbers()? },
            b'B' => Self::Bind {
                portal: body.text()?,
                statement: body.text()?,
                formats: body.numbers()?,
                values: body.values()?,
                results: body.numbers()?,
            },
            b'D' => Self::Describe(body.target()?),
            b'E' => Self::Execute { portal: body.text()?, limit: body.u32()?.min(i32::MAX as u32) },
            b'C' => Self::Close(body.target()?),
            b'H' => Self::Flush,
            b'S' => Self::Sync,
            b'X' => Self::Terminate,
            b'd' => Self::CopyData(std::mem::take(&mut body.0)),
            b'c' => Self::CopyDone,
            b'f' => Self::CopyFail(body.text()?),
            b'p' => Self::Password(std::mem::take(&mut body.0)),
            other => return malformed(format!("invalid frontend message type {other}")),
        };
        if body.0.is_empty() { Ok(read) } else { malformed(format!("message {:?} is too long", char::from(*kind))) }
    }
}

/// Numbers of `N` bytes each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers<'a, const N: usize>(&'a [u8]);

impl<const N: usize> Numbers<'_, N> {
    pub fn len(&self) -> usize {
        self.0.len() / N
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> {
        self.0.chunks_exact(N).map(|bytes| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}

/// Values of parameters, in order; `None` is NULL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Values<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Values<'a> {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut body = Body(self.bytes);
        // They were walked once, when the message was read.
        std::iter::from_fn(move || body.value().ok()).take(self.count)
    }
}

/// What is left of a message.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.0.split_at_checked(count) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => malformed("a message ends too early"),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| Malformed("a message ends too early".into()))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Text up to a zero byte.
    fn text(&mut self) -> Result<&'a str> {
        let Some(end) = self.0.iter().position(|byte| *byte == 0) else {
            return malformed("a text of a message does not end");
        };
        let bytes = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(bytes).map_err(|error| Malformed(format!("text that is not UTF-8: {error}")))
    }

    fn target(&mut self) -> Result<Target<'a>> {
        let [kind] = self.array()?;
        let name = self.text()?;
        match kind {
            b'S' => Ok(Target::Statement(name)),
            b'P' => Ok(Target::Portal(name)),
            other => malformed(format!("neither a statement nor a portal: {other}")),
        }
    }

    fn numbers<const N: usize>(&mut self) -> Result<Numbers<'a, N>> {
        let count = usize::from(self.u16()?);
        Ok(Numbers(self.take(count * N)?))
    }

    fn value(&mut self) -> Result<Option<&'a [u8]>> {
        match self.u32()? as i32 {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(self.take(length)?)),
                Err(_) => malformed(format!("a value of {length} bytes")),
            },
        }
    }

    fn values(&mut self) -> Result<Values<'a>> {
        let count = usize::from(self.u16()?);
        let bytes = self.0;
        for _ in 0..count {
            self.value()?;
        }
        Ok(Values { bytes: &bytes[..bytes.len() - self.0.len()], count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind], &length.to_be_bytes()[..], body].concat()
    }

    #[test]
    fn a_bind_is_read_without_copying() {
        let bind = message(b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\0");
        let Frontend::Bind { portal, statement, formats, values, results } = Frontend::read(&bind).unwrap() else {
            panic!()
        };
        assert_eq!((portal, statement, results.len()), ("p", "s", 0));
        assert_eq!(formats.iter().collect::<Vec<_>>(), [1]);
        assert_eq!(values.iter().collect::<Vec<_>>(), [Some(&b"hi"[..]), None]);
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_refused() {
        let bind = message(b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\0");
        for length in 0..bind.len() {
            assert!(Frontend::read(&bind[..length]).is_err(), "{length}");
        }
        assert!(Frontend::read(&message(b'S', b"x")).is_err());
        assert!(message_bytes(b"Q\0\0\0\x03", 100).is_err());
        assert!(message_bytes(b"Q\xff\xff\xff\xff", 100).is_err());
        assert_eq!(message_bytes(b"Q\0\0\0\x05", 100), Ok(None));
    }
}
