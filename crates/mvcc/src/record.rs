//! What a committed transaction leaves in the log: its changes, one after the other.
//!
//! ```text
//!   change   kind (1) │ table │ key length │ key │ …
//!     put      body length │ body                                the whole row
//!     patch    base │ prefix │ middle length │ suffix │ middle   the row of timestamp `base`: its first `prefix` and
//!                                                                last `suffix` bytes, and `middle` between them
//!     delete   nothing more
//! ```
//!
//! Numbers are LEB128. A key occurs once in a record. A patch is what keeps the log of small updates of long rows
//! small: all fixed-width columns of a row lie side by side, so one middle holds what an update changed. Failure model:
//! bytes may be hostile; reading them gives an error and never a panic.

use std::fmt;

const PUT: u8 = 0;
const PATCH: u8 = 1;
const DELETE: u8 = 2;

/// One change of one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<'a> {
    pub table: u32,
    pub key: &'a [u8],
    pub effect: Effect<'a>,
}

/// What becomes of the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect<'a> {
    Put(&'a [u8]),
    Patch(Patch<'a>),
    Delete,
}

/// A new body, told by its difference from the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patch<'a> {
    /// The timestamp of the version before.
    pub base: u64,
    pub prefix: usize,
    pub suffix: usize,
    pub middle: &'a [u8],
}

impl<'a> Patch<'a> {
    /// How `new` differs from `old`; `None` where the whole of `new` is hardly longer.
    pub fn between(base: u64, old: &[u8], new: &'a [u8]) -> Option<Self> {
        let shorter = old.len().min(new.len());
        let prefix = common_prefix(&old[..shorter], &new[..shorter]);
        let suffix = common_suffix(&old[old.len() - (shorter - prefix)..], &new[new.len() - (shorter - prefix)..]);
        let middle = &new[prefix..new.len() - suffix];
        (middle.len() + PATCH_OVERHEAD_BYTES < new.len()).then_some(Self { base, prefix, suffix, middle })
    }

    /// Bytes of the new body.
    pub fn length(&self) -> usize {
        self.prefix.saturating_add(self.middle.len()).saturating_add(self.suffix)
    }

    /// Writes the new body; `false` if `old` is too short to be the one before.
    pub fn apply(&self, old: &[u8], new: &mut Vec<u8>) -> bool {
        let Some(suffix_at) = old.len().checked_sub(self.suffix) else { return false };
        let Some(prefix) = old.get(..self.prefix) else { return false };
        new.extend_from_slice(prefix);
        new.extend_from_slice(self.middle);
        new.extend_from_slice(&old[suffix_at..]);
        true
    }
}

/// About what a patch takes besides its middle.
const PATCH_OVERHEAD_BYTES: usize = 8;

fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    let words = left.chunks_exact(8).zip(right.chunks_exact(8));
    let whole = 8 * words.take_while(|(left, right)| left == right).count();
    whole + left[whole..].iter().zip(&right[whole..]).take_while(|(left, right)| left == right).count()
}

fn common_suffix(left: &[u8], right: &[u8]) -> usize {
    let words = left.rchunks_exact(8).zip(right.rchunks_exact(8));
    let whole = 8 * words.take_while(|(left, right)| left == right).count();
    let rest = |side: &[u8]| side.len() - whole;
    let bytes = left[..rest(left)].iter().rev().zip(right[..rest(right)].iter().rev());
    whole + bytes.take_while(|(left, right)| left == right).count()
}

impl Change<'_> {
    /// Appends the change to a record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self.effect {
            Effect::Put(_) => PUT,
            Effect::Patch(_) => PATCH,
            Effect::Delete => DELETE,
        });
        number(u64::from(self.table), out);
        number(self.key.len() as u64, out);
        out.extend_from_slice(self.key);
        match self.effect {
            Effect::Put(body) => {
                number(body.len() as u64, out);
                out.extend_from_slice(body);
            }
            Effect::Patch(patch) => {
                number(patch.base, out);
                number(patch.prefix as u64, out);
                number(patch.middle.len() as u64, out);
                number(patch.suffix as u64, out);
                out.extend_from_slice(patch.middle);
            }
            Effect::Delete => {}
        }
    }
}

#[inline]
fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A record that is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MalformedRecord {
    /// The byte of the payload from which on it makes no sense.
    pub at: usize,
}

impl fmt::Display for MalformedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its changes make no sense from byte {} on", self.at)
    }
}

/// The changes of a record, in order. Ends with the first error.
pub fn changes(payload: &[u8]) -> impl Iterator<Item = Result<Change<'_>, MalformedRecord>> {
    let mut rest = payload;
    let mut failed = false;
    std::iter::from_fn(move || {
        if rest.is_empty() || failed {
            return None;
        }
        let at = payload.len() - rest.len();
        let change = read_change(&mut rest).ok_or(MalformedRecord { at });
        failed = change.is_err();
        Some(change)
    })
}

fn read_change<'a>(rest: &mut &'a [u8]) -> Option<Change<'a>> {
    let kind = *rest.split_off_first()?;
    let table = u32::try_from(read_number(rest)?).ok()?;
    let key = read_bytes(rest)?;
    let effect = match kind {
        PUT => Effect::Put(read_bytes(rest)?),
        PATCH => {
            let base = read_number(rest)?;
            let prefix = read_length(rest)?;
            let middle = read_length(rest)?;
            let suffix = read_length(rest)?;
            Effect::Patch(Patch { base, prefix, suffix, middle: rest.split_off(..middle)? })
        }
        DELETE => Effect::Delete,
        _ => return None,
    };
    Some(Change { table, key, effect })
}

fn read_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_length(rest)?;
    rest.split_off(..length)
}

/// A length within a row's limit, whatever the bytes say.
fn read_length(rest: &mut &[u8]) -> Option<usize> {
    let length = read_number(rest)?;
    (length <= saki_base::row::ROW_BYTES_MAX as u64).then_some(length as usize)
}

#[inline]
fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_patch_makes_the_new_body(
            old in prop::collection::vec(0_u8..3, 0..60),
            new in prop::collection::vec(0_u8..3, 0..60),
        ) {
            if let Some(patch) = Patch::between(7, &old, &new) {
                let mut made = Vec::new();
                prop_assert!(patch.apply(&old, &mut made));
                prop_assert_eq!(&made, &new);
                prop_assert_eq!(patch.length(), new.len());
                let mut bytes = Vec::new();
                let change = Change { table: 300, key: &old, effect: Effect::Patch(patch) };
                change.encode(&mut bytes);
                prop_assert_eq!(changes(&bytes).collect::<Vec<_>>(), vec![Ok(change)]);
            }
        }

        #[test]
        fn hostile_bytes_are_an_error_or_some_changes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for change in changes(&bytes).flatten() {
                if let Effect::Patch(patch) = change.effect {
                    patch.apply(&bytes, &mut Vec::new());
                }
            }
        }
    }

    #[test]
    fn changes_come_back() {
        let all = [
            Change { table: 0, key: b"", effect: Effect::Put(b"") },
            Change { table: u32::MAX, key: &[0xff; 200], effect: Effect::Put(&[7; 300]) },
            Change { table: 1, key: b"gone", effect: Effect::Delete },
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|change| change.encode(&mut bytes));
        assert_eq!(changes(&bytes).map(Result::unwrap).collect::<Vec<_>>(), all);
        let cut = &bytes[..bytes.len() - 1];
        assert!(changes(cut).last().unwrap().is_err());
    }
}
