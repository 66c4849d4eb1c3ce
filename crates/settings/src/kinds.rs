//! Kinds of values that settings take: how each is read from text, shown as text, and described to who gave another.

use std::ops::RangeInclusive;

/// How values of a setting are written.
pub trait Kind {
    type Value;

    /// What it takes, in words that follow "it takes".
    fn takes(&self) -> String;

    /// The value that a text in small letters stands for; `None` if it stands for none.
    fn read(&self, text: &str) -> Option<Self::Value>;

    /// What [`Kind::read`] makes the same value of.
    fn show(&self, value: &Self::Value) -> String;
}

/// One of some words.
pub struct OneOf<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Kind for OneOf<T> {
    type Value = T;

    fn takes(&self) -> String {
        let words: Vec<&str> = self.0.iter().map(|(word, _)| *word).collect();
        match &words[..] {
            [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            words => words.join(""),
        }
    }

    fn read(&self, text: &str) -> Option<T> {
        self.0.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
    }

    fn show(&self, value: &T) -> String {
        self.0.iter().find(|(_, known)| known == value).map_or("", |(word, _)| *word).to_owned()
    }
}

/// On or off.
pub struct Switch;

impl Kind for Switch {
    type Value = bool;

    fn takes(&self) -> String {
        "on or off".to_owned()
    }

    fn read(&self, text: &str) -> Option<bool> {
        match text {
            "on" | "true" => Some(true),
            "off" | "false" => Some(false),
            _ => None,
        }
    }

    fn show(&self, on: &bool) -> String {
        if *on { "on" } else { "off" }.to_owned()
    }
}

/// A whole number within bounds.
pub struct Number(pub RangeInclusive<usize>);

impl Kind for Number {
    type Value = usize;

    fn takes(&self) -> String {
        format!("a number from {} to {}", self.0.start(), self.0.end())
    }

    fn read(&self, text: &str) -> Option<usize> {
        text.parse().ok().filter(|number| self.0.contains(number))
    }

    fn show(&self, number: &usize) -> String {
        number.to_string()
    }
}

/// A count of things, or as many as there are: `u32::MAX`.
pub struct CountOrUnlimited(pub &'static str);

impl Kind for CountOrUnlimited {
    type Value = u32;

    fn takes(&self) -> String {
        format!("a number of {} from 1, or unlimited", self.0)
    }

    fn read(&self, text: &str) -> Option<u32> {
        match text {
            "unlimited" => Some(u32::MAX),
            number => number.parse().ok().filter(|number| *number > 0),
        }
    }

    fn show(&self, count: &u32) -> String {
        if *count == u32::MAX { "unlimited".to_owned() } else { count.to_string() }
    }
}

/// Least size, in bytes, that memory can be limited to.
const SIZE_MIN: usize = 1 << 20;

/// Bytes.
pub struct Size(pub &'static str);

impl Kind for Size {
    type Value = usize;

    fn takes(&self) -> String {
        format!("a size such as {}, from {}", self.0, show_size(SIZE_MIN))
    }

    fn read(&self, text: &str) -> Option<usize> {
        parse_size(text).filter(|bytes| *bytes >= SIZE_MIN)
    }

    fn show(&self, bytes: &usize) -> String {
        show_size(*bytes)
    }
}

/// Bytes, or as many as there are.
pub struct SizeOrUnlimited(pub &'static str);

impl Kind for SizeOrUnlimited {
    type Value = Option<usize>;

    fn takes(&self) -> String {
        format!("{}, or unlimited", Size(self.0).takes())
    }

    fn read(&self, text: &str) -> Option<Option<usize>> {
        match text {
            "unlimited" => Some(None),
            size => Size(self.0).read(size).map(Some),
        }
    }

    fn show(&self, bytes: &Option<usize>) -> String {
        bytes.map_or_else(|| "unlimited".to_owned(), show_size)
    }
}

/// Bytes of `64MB`, `1 GiB`, `4096`; units are powers of 1024.
pub fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn show_size(bytes: usize) -> String {
    match bytes {
        b if b.is_multiple_of(1 << 30) => format!("{}GB", b >> 30),
        b if b.is_multiple_of(1 << 20) => format!("{}MB", b >> 20),
        b if b.is_multiple_of(1 << 10) => format!("{}kB", b >> 10),
        b => b.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        let cases = [
            ("4096", Some(4096)),
            ("64MB", Some(64 << 20)),
            (" 1 GiB ", Some(1 << 30)),
            ("3k", Some(3 << 10)),
            ("7b", Some(7)),
            ("", None),
            ("MB", None),
            ("1.5MB", None),
            ("-1MB", None),
            ("1TB", None),
            ("99999999999999999999", None),
            ("18446744073709551615GB", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn memory_is_not_limited_to_less_than_a_megabyte() {
        assert_eq!(Size("64MB").read("1048575"), None);
        assert_eq!(Size("64MB").read("1mb"), Some(1 << 20));
        assert_eq!(SizeOrUnlimited("64MB").read("1kb"), None);
        assert_eq!(SizeOrUnlimited("64MB").read("unlimited"), Some(None));
    }

    #[test]
    fn words_are_listed_as_one_says_them() {
        assert_eq!(OneOf(&[("a", 1)]).takes(), "a");
        assert_eq!(OneOf(&[("a", 1), ("b", 2)]).takes(), "a or b");
        assert_eq!(OneOf(&[("a", 1), ("b", 2), ("c", 3)]).takes(), "a, b or c");
        assert_eq!(OneOf(&[("a", 1)]).read("A"), None, "who reads has made letters small");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_as_the_same_value(
            bytes in 1_usize << 20..1 << 50,
            count in 1_u32..,
            number in 1_usize..=9,
        ) {
            prop_assert_eq!(Size("1MB").read(&Size("1MB").show(&bytes).to_lowercase()), Some(bytes));
            let limit = SizeOrUnlimited("1MB");
            prop_assert_eq!(limit.read(&limit.show(&Some(bytes)).to_lowercase()), Some(Some(bytes)));
            let requests = CountOrUnlimited("requests");
            prop_assert_eq!(requests.read(&requests.show(&count)), Some(count));
            let digit = Number(1..=9);
            prop_assert_eq!(digit.read(&digit.show(&number)), Some(number));
        }
    }
}
