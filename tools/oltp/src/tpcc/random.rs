//! The random values of TPC-C, standard specification revision 5.11: clauses 2.1.6, 4.3.2 and 4.3.3.

use saki_base::Random;

use crate::zipf::below;

/// Clause 4.3.2.3: the syllables of customers' last names.
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// What a tenth of the items and stocks have somewhere in their data.
pub const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// Items of a whole population.
pub const ITEMS: i32 = 100_000;

/// A number of `from..=to`.
#[inline]
pub fn uniform(random: &mut Random, from: i32, to: i32) -> i32 {
    from + below(random, (i64::from(to) - i64::from(from) + 1) as u64) as i32
}

/// Clause 2.1.6: numbers of `from..=to`, not uniform; `mask` is the clause's A, a power of two less one, and `constant`
/// its C.
#[derive(Clone, Copy, Debug)]
pub struct NonUniform {
    mask: i32,
    constant: i32,
    from: i32,
    to: i32,
}

impl NonUniform {
    pub const fn new(mask: i32, constant: i32, from: i32, to: i32) -> Self {
        Self { mask, constant, from, to }
    }

    /// Of items, by number.
    pub fn items(constants: &Constants, count: i32) -> Self {
        Self::new(8191, constants.item, 1, count)
    }

    /// Of customers, by number.
    pub fn customers(constants: &Constants, count: i32) -> Self {
        Self::new(1023, constants.customer, 1, count)
    }

    /// Of customers' last names, by number: see [`last_name`].
    pub fn last_names(constant: i32, count: i32) -> Self {
        Self::new(255, constant, 0, count - 1)
    }

    #[inline]
    pub fn next(&self, random: &mut Random) -> i32 {
        let bits = uniform(random, 0, self.mask) | uniform(random, self.from, self.to);
        // The sum is less than three spans, so this is shorter than a division.
        let span = self.to - self.from + 1;
        let mut number = bits + self.constant;
        if number >= span {
            number %= span;
        }
        number + self.from
    }
}

/// The C of each use, drawn once a run.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    pub item: i32,
    pub customer: i32,
    pub last_name_load: i32,
    pub last_name: i32,
}

impl Constants {
    /// Clause 2.1.6.1: the C of last names in the run differs from that of the load by 65 to 119, but not by 96 or 112.
    pub fn draw(random: &mut Random) -> Self {
        let last_name_load = uniform(random, 0, 255);
        let last_name = loop {
            let constant = uniform(random, 0, 255);
            let delta = (constant - last_name_load).abs();
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                break constant;
            }
        };
        Self { item: uniform(random, 0, 8191), customer: uniform(random, 0, 1023), last_name_load, last_name }
    }
}

/// Clause 4.3.2.3: the last name of a number below 1000, into `name`.
pub fn last_name(number: i32, name: &mut Vec<u8>) {
    name.clear();
    for digit in [number / 100, number / 10 % 10, number % 10] {
        name.extend_from_slice(SYLLABLES[digit as usize].as_bytes());
    }
}

/// Clause 4.3.2.2: letters and digits, `from..=to` of them.
pub fn letters(random: &mut Random, from: usize, to: usize) -> String {
    text_of(random, LETTERS, from, to)
}

/// The same of digits only.
pub fn digits(random: &mut Random, from: usize, to: usize) -> String {
    text_of(random, b"0123456789", from, to)
}

fn text_of(random: &mut Random, alphabet: &[u8], from: usize, to: usize) -> String {
    let length = from + below(random, (to - from + 1) as u64) as usize;
    (0..length).map(|_| char::from(alphabet[below(random, alphabet.len() as u64) as usize])).collect()
}

/// Clause 4.3.2.7: a postal code.
pub fn zip(random: &mut Random) -> String {
    digits(random, 4, 4) + "11111"
}

/// Clause 4.3.3.1: 26 to 50 letters, with `ORIGINAL` somewhere in a tenth of them.
pub fn data(random: &mut Random) -> String {
    let mut text = letters(random, 26, 50);
    if below(random, 10) == 0 {
        let at = below(random, (text.len() - ORIGINAL.len() + 1) as u64) as usize;
        text.replace_range(at..at + ORIGINAL.len(), "ORIGINAL");
    }
    text
}

/// Whether a text holds `ORIGINAL`.
#[inline]
pub fn is_original(text: &[u8]) -> bool {
    let wanted = u64::from_ne_bytes(*ORIGINAL);
    text.windows(ORIGINAL.len()).any(|window| {
        let window = window.first_chunk().expect("a window is as long");
        u64::from_ne_bytes(*window) == wanted
    })
}

/// Clause 4.3.3.1: a permutation of `1..=count`.
pub fn permutation(random: &mut Random, count: i32) -> Vec<i32> {
    let mut numbers: Vec<i32> = (1..=count).collect();
    random.shuffle(&mut numbers);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_syllables() {
        let mut name = Vec::new();
        for (number, expected) in [(0, "BARBARBAR"), (371, "PRICALLYOUGHT"), (999, "EINGEINGEING")] {
            last_name(number, &mut name);
            assert_eq!(name, expected.as_bytes());
            assert!(name.len() <= 16);
        }
    }

    #[test]
    fn numbers_are_in_range_and_not_uniform() {
        let mut random = Random::new(3);
        let constants = Constants::draw(&mut random);
        let items = NonUniform::items(&constants, ITEMS);
        let mut seen = vec![0_u32; ITEMS as usize + 1];
        (0..1_000_000).for_each(|_| seen[items.next(&mut random) as usize] += 1);
        assert_eq!(seen[0], 0);
        // By far the most often are those with many bits set below the mask.
        let popular = seen.iter().filter(|count| **count > 100).count();
        assert!((100..20_000).contains(&popular), "{popular}");
        // Scaled down, numbers stay in range.
        let few = NonUniform::items(&constants, 10);
        assert!((0..1_000).all(|_| (1..=10).contains(&few.next(&mut random))));
    }

    #[test]
    fn constants_differ_as_they_must() {
        let mut random = Random::new(4);
        for _ in 0..1_000 {
            let constants = Constants::draw(&mut random);
            let delta = (constants.last_name - constants.last_name_load).abs();
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{delta}");
        }
    }

    #[test]
    fn texts_have_their_lengths_and_some_are_original() {
        let mut random = Random::new(5);
        let texts: Vec<String> = (0..10_000).map(|_| data(&mut random)).collect();
        assert!(texts.iter().all(|text| (26..=50).contains(&text.len()) && text.is_ascii()));
        let originals = texts.iter().filter(|text| is_original(text.as_bytes())).count();
        assert!((850..1_150).contains(&originals), "{originals}");
        assert_eq!(originals, texts.iter().filter(|text| text.contains("ORIGINAL")).count());
        assert_eq!(zip(&mut random).len(), 9);
        assert!(!is_original(b"short") && is_original(b"ORIGINAL"));
    }

    #[test]
    fn a_permutation_has_each_once() {
        let mut numbers = permutation(&mut Random::new(6), 3_000);
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=3_000));
    }
}
