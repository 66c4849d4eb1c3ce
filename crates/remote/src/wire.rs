//! What readers and owners of pages say to each other, in messages of the fabric; `docs/remote.md` has the bytes.
//!
//! Everything is checked before it is believed: a message has exactly the length that its counts ask for, numbers are
//! within their bounds, and what has no meaning is zero. Whoever sends anything else is not listened to any more.

use saki_base::PageAddress;
use saki_base::bytes::ByteReader;
use saki_fabric::{REGION_KEY_BYTES, RegionKey};

/// The version of this conversation. Nodes of different versions refuse each other by name.
pub const VERSION: u32 = 1;
/// Asks, freed frames or answers of one message, at most.
pub const ENTRIES_MOST: usize = 4096;
/// Bytes of a text, at most.
pub const TEXT_BYTES_MOST: usize = 256;
/// An answer with so many bytes takes no more.
const ANSWER_BYTES_FULL: usize = 128 << 10;

const ENTER: u32 = 1;
const ASK: u32 = 2;
const WELCOME: u32 = 3;
const ANSWER: u32 = 4;
const REFUSED: u32 = 5;

const ASK_BYTES: usize = 16;
const FREED_BYTES: usize = 4;
const ANSWER_BYTES: usize = 12;

/// A reader wants a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// What the answer calls it.
    pub id: u32,
    /// What came before was not what it should be: a copy is not to be trusted.
    pub from_home: bool,
    pub address: PageAddress,
}

/// What a reader says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToOwner<'m> {
    /// The first thing.
    Enter { version: u32 },
    /// Frames that it has read, and pages that it wants.
    Ask(Asks<'m>),
}

/// Frames and asks of one message, as they came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asks<'m> {
    freed: &'m [u8],
    asked: &'m [u8],
}

impl Asks<'_> {
    pub fn freed(&self) -> impl Iterator<Item = u32> {
        self.freed.chunks_exact(FREED_BYTES).map(|bytes| number(bytes, 0))
    }

    pub fn asked(&self) -> impl Iterator<Item = Ask> {
        self.asked.chunks_exact(ASK_BYTES).map(|bytes| Ask {
            id: number(bytes, 0),
            from_home: number(bytes, 4) == 1,
            address: PageAddress(u64::from(number(bytes, 8)) | u64::from(number(bytes, 12)) << 32),
        })
    }
}

/// Of bytes whose length is known.
fn number(bytes: &[u8], at: usize) -> u32 {
    saki_base::bytes::u32_at(bytes, at).unwrap_or(0)
}

pub fn encode_enter(version: u32) -> Vec<u8> {
    [ENTER.to_le_bytes(), version.to_le_bytes()].concat()
}

/// At most [`ENTRIES_MOST`] of each.
pub fn encode_asks(freed: &[u32], asked: impl ExactSizeIterator<Item = Ask>) -> Vec<u8> {
    assert!(freed.len() <= ENTRIES_MOST && asked.len() <= ENTRIES_MOST, "more in one message than it may have");
    let mut bytes = Vec::with_capacity(12 + freed.len() * FREED_BYTES + asked.len() * ASK_BYTES);
    for count in [ASK, freed.len() as u32, asked.len() as u32] {
        bytes.extend(count.to_le_bytes());
    }
    freed.iter().for_each(|frame| bytes.extend(frame.to_le_bytes()));
    for ask in asked {
        bytes.extend(ask.id.to_le_bytes());
        bytes.extend(u32::from(ask.from_home).to_le_bytes());
        bytes.extend(ask.address.0.to_le_bytes());
    }
    bytes
}

impl<'m> ToOwner<'m> {
    /// `None`: no reader says that.
    pub fn decode(message: &'m [u8]) -> Option<Self> {
        let mut reader = ByteReader::new(message);
        match reader.u32()? {
            ENTER => {
                let version = reader.u32()?;
                reader.rest().is_empty().then_some(Self::Enter { version })
            }
            ASK => {
                let (freed, asked) = (reader.u32()? as usize, reader.u32()? as usize);
                if freed > ENTRIES_MOST || asked > ENTRIES_MOST {
                    return None;
                }
                let asks = Asks { freed: reader.take(freed * FREED_BYTES)?, asked: reader.take(asked * ASK_BYTES)? };
                let flags = asks.asked.chunks_exact(ASK_BYTES).all(|bytes| number(bytes, 4) <= 1);
                (reader.rest().is_empty() && flags).then_some(Self::Ask(asks))
            }
            _ => None,
        }
    }
}

/// What an owner tells a reader that has entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Welcome {
    pub page_bytes: u32,
    /// Pages that the reader may have asked for and not freed, at most.
    pub requests_most: u32,
    /// Of the frames.
    pub region: RegionKey,
}

/// What became of an ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<'m> {
    /// The page is in this frame, for the reader alone until it frees it.
    Page { frame: u32 },
    /// The address is mapped to nothing.
    Unmapped,
    /// The owner's device failed.
    Unreadable(&'m str),
}

/// What an owner says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToReader<'m> {
    Welcome(Welcome),
    Answer(Answers<'m>),
    /// It speaks another version, or has no frames for another reader.
    Refused {
        version: u32,
        why: &'m str,
    },
}

/// Answers of one message, as they came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answers<'m> {
    entries: &'m [u8],
    texts: &'m str,
}

impl<'m> Answers<'m> {
    /// By the ids of the asks.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Outcome<'m>)> {
        let mut texts = self.texts;
        self.entries.chunks_exact(ANSWER_BYTES).map(move |bytes| {
            let outcome = match bytes[8] {
                PAGE => Outcome::Page { frame: number(bytes, 4) },
                UNMAPPED => Outcome::Unmapped,
                _ => {
                    let (text, rest) = texts.split_at(usize::from(u16::from_le_bytes([bytes[10], bytes[11]])));
                    texts = rest;
                    Outcome::Unreadable(text)
                }
            };
            (number(bytes, 0), outcome)
        })
    }

    fn is_sound(&self) -> bool {
        let mut at = 0;
        let entries = self.entries.chunks_exact(ANSWER_BYTES).all(|bytes| {
            let text = usize::from(u16::from_le_bytes([bytes[10], bytes[11]]));
            at += text;
            let has_frame = bytes[4..8] != [0; 4];
            bytes[9] == 0
                && match bytes[8] {
                    PAGE => text == 0,
                    UNMAPPED => !has_frame && text == 0,
                    UNREADABLE => !has_frame && text <= TEXT_BYTES_MOST && self.texts.is_char_boundary(at),
                    _ => false,
                }
        });
        entries && at == self.texts.len()
    }
}

const PAGE: u8 = 1;
const UNMAPPED: u8 = 2;
const UNREADABLE: u8 = 3;

impl Welcome {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + REGION_KEY_BYTES);
        for number in [WELCOME, VERSION, self.page_bytes, self.requests_most] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.region.to_bytes());
        bytes
    }
}

pub fn encode_refused(why: &str) -> Vec<u8> {
    let mut bytes = [REFUSED.to_le_bytes(), VERSION.to_le_bytes()].concat();
    bytes.extend(shortened(why).as_bytes());
    bytes
}

/// As much of a text as may be sent.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MOST)]
}

impl<'m> ToReader<'m> {
    /// `None`: no owner says that.
    pub fn decode(message: &'m [u8]) -> Option<Self> {
        let mut reader = ByteReader::new(message);
        match reader.u32()? {
            WELCOME => {
                let version = reader.u32()?;
                let (page_bytes, requests_most) = (reader.u32()?, reader.u32()?);
                let region = RegionKey::from_bytes(reader.rest())?;
                let sound = version == VERSION && requests_most > 0;
                sound.then_some(Self::Welcome(Welcome { page_bytes, requests_most, region }))
            }
            ANSWER => {
                let count = reader.u32()? as usize;
                if count > ENTRIES_MOST {
                    return None;
                }
                let entries = reader.take(count * ANSWER_BYTES)?;
                let answers = Answers { entries, texts: std::str::from_utf8(reader.rest()).ok()? };
                answers.is_sound().then_some(Self::Answer(answers))
            }
            REFUSED => {
                let version = reader.u32()?;
                let why = std::str::from_utf8(reader.rest()).ok()?;
                (why.len() <= TEXT_BYTES_MOST).then_some(Self::Refused { version, why })
            }
            _ => None,
        }
    }
}

/// Answers that are gathered into one message.
#[derive(Default)]
pub struct AnswerBatch {
    entries: Vec<u8>,
    texts: Vec<u8>,
}

impl AnswerBatch {
    pub fn push(&mut self, id: u32, outcome: &Outcome<'_>) {
        let (frame, what, text) = match outcome {
            Outcome::Page { frame } => (*frame, PAGE, ""),
            Outcome::Unmapped => (0, UNMAPPED, ""),
            Outcome::Unreadable(text) => (0, UNREADABLE, shortened(text)),
        };
        self.entries.extend(id.to_le_bytes());
        self.entries.extend(frame.to_le_bytes());
        self.entries.extend([what, 0]);
        self.entries.extend((text.len() as u16).to_le_bytes());
        self.texts.extend(text.as_bytes());
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// No more goes into one message.
    pub fn is_full(&self) -> bool {
        let count = self.entries.len() / ANSWER_BYTES;
        count == ENTRIES_MOST || self.entries.len() + self.texts.len() >= ANSWER_BYTES_FULL
    }

    /// The message; the batch is empty then.
    pub fn take(&mut self) -> Vec<u8> {
        let count = (self.entries.len() / ANSWER_BYTES) as u32;
        let mut bytes = Vec::with_capacity(8 + self.entries.len() + self.texts.len());
        bytes.extend(ANSWER.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.append(&mut self.entries);
        bytes.append(&mut self.texts);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_said_is_heard() {
        assert_eq!(ToOwner::decode(&encode_enter(7)), Some(ToOwner::Enter { version: 7 }));
        let welcome = Welcome { page_bytes: 4096, requests_most: 9, region: RegionKey { number: 1, secret: 2 } };
        assert_eq!(ToReader::decode(&welcome.encode()), Some(ToReader::Welcome(welcome)));
        let long = "ä".repeat(TEXT_BYTES_MOST);
        let why = &long[..TEXT_BYTES_MOST];
        let refused = ToReader::Refused { version: VERSION, why };
        assert_eq!(ToReader::decode(&encode_refused(&long)), Some(refused));
    }

    #[test]
    fn what_is_cut_or_longer_is_not_heard() {
        let asks = encode_asks(&[1, 2], [Ask { id: 3, from_home: true, address: PageAddress(1 << 40) }].into_iter());
        let mut answers = AnswerBatch::default();
        answers.push(1, &Outcome::Page { frame: 4 });
        answers.push(2, &Outcome::Unreadable("on fire"));
        let answers = answers.take();
        assert!(ToOwner::decode(&asks).is_some() && ToReader::decode(&answers).is_some());
        for length in 0..asks.len() {
            assert_eq!(ToOwner::decode(&asks[..length]), None);
        }
        for length in 0..answers.len() {
            assert_eq!(ToReader::decode(&answers[..length]), None);
        }
        assert_eq!(ToOwner::decode(&[&asks[..], &[0]].concat()), None);
        assert_eq!(ToReader::decode(&[&answers[..], &[0]].concat()), None);
    }

    proptest! {
        #[test]
        fn asks_and_answers_are_read_as_they_were_written(
            freed in proptest::collection::vec(any::<u32>(), 0..50),
            asked in proptest::collection::vec((any::<u32>(), any::<bool>(), any::<u64>()), 0..50),
            answers in proptest::collection::vec((any::<u32>(), 0_u8..4, any::<u32>(), "[a-zä]{0,200}"), 0..50),
        ) {
            let ask = |(id, from_home, address)| Ask { id, from_home, address: PageAddress(address) };
            let asked: Vec<_> = asked.into_iter().map(ask).collect();
            let message = encode_asks(&freed, asked.iter().copied());
            let Some(ToOwner::Ask(heard)) = ToOwner::decode(&message) else { panic!("not heard") };
            prop_assert!(heard.freed().eq(freed.iter().copied()) && heard.asked().eq(asked.iter().copied()));
            let mut batch = AnswerBatch::default();
            let outcomes: Vec<_> = answers.iter().map(|(id, what, frame, text)| (*id, match what {
                0 | 1 => Outcome::Page { frame: *frame },
                2 => Outcome::Unmapped,
                _ => Outcome::Unreadable(shortened(text)),
            })).collect();
            outcomes.iter().for_each(|(id, outcome)| batch.push(*id, outcome));
            let message = batch.take();
            let Some(ToReader::Answer(heard)) = ToReader::decode(&message) else { panic!("not heard") };
            prop_assert!(heard.iter().eq(outcomes));
            prop_assert!(batch.is_empty());
        }
    }
}
