//! Keys as words: eight bytes each, big-endian, so that words compare as the bytes do.

/// The eight bytes of `key` from `at` on, padded with zeros behind its end.
#[inline(always)]
pub(crate) fn word_at(key: &[u8], at: usize) -> u64 {
    if let Some(whole) = key.get(at..).and_then(<[u8]>::first_chunk) {
        return u64::from_be_bytes(*whole);
    }
    partial_word(key, at)
}

#[inline]
fn partial_word(key: &[u8], at: usize) -> u64 {
    let rest = key.len().saturating_sub(at);
    match key.last_chunk() {
        _ if rest == 0 => 0,
        // One load of the key's last eight bytes, of which the earlier ones are shifted out.
        Some(last) => u64::from_be_bytes(*last) << (64 - 8 * rest),
        None => key[at..].iter().enumerate().fold(0, |word, (i, &byte)| word | (u64::from(byte) << (56 - 8 * i))),
    }
}

/// The first `bytes` (at most 8) bytes of a word; the others are 0.
#[inline]
pub(crate) fn leading(word: u64, bytes: usize) -> u64 {
    if bytes == 0 { 0 } else { word & (!0 << (64 - 8 * bytes)) }
}

/// How many leading bytes two keys share.
pub(crate) fn common_prefix(one: &[u8], two: &[u8]) -> usize {
    one.iter().zip(two).take_while(|(a, b)| a == b).count()
}

/// The key that separates `left` from `right`: `left < separator <= right`. It is a prefix of `right`, a multiple of
/// eight bytes unless `right` is shorter: so separators of one node tend to be equally long, which makes that node's
/// search the simple one.
pub(crate) fn separator<'k>(left: &[u8], right: &'k [u8]) -> &'k [u8] {
    debug_assert!(left < right);
    let shortest = common_prefix(left, right) + 1;
    &right[..shortest.next_multiple_of(8).min(right.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_bytes_padded() {
        let key: Vec<u8> = (1..=20).collect();
        for len in 0..=key.len() {
            for at in 0..=len + 3 {
                let mut expected = [0; 8];
                for (to, from) in expected.iter_mut().zip(key[..len].get(at..).unwrap_or_default()) {
                    *to = *from;
                }
                assert_eq!(word_at(&key[..len], at), u64::from_be_bytes(expected), "{at} of {len}");
            }
        }
    }

    #[test]
    fn separators_separate() {
        let cases: [(&[u8], &[u8]); 5] = [
            (b"", b"a"),
            (b"abc", b"abd"),
            (b"abc", b"abc\0"),
            (b"abcdefghi", b"abcdefghijklmnopqrst"),
            (b"a", b"bcdefghijkl"),
        ];
        for (left, right) in cases {
            let separator = separator(left, right);
            assert!(left < separator && separator <= right);
        }
        assert_eq!(separator(b"a", b"bcdefghijkl"), b"bcdefghi");
    }
}
