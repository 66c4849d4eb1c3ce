//! Numbers with as many digits as they need.

use num_bigint::{BigInt, Sign};

/// What is behind the point is counted in digits, what a number weighs in groups of four, as PostgreSQL stores them.
const GROUP: i64 = 4;

/// A number and how many digits behind the point it is shown with: `unscaled / 10^scale`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    pub unscaled: BigInt,
    pub scale: u32,
}

impl Number {
    /// `None`: the scale is one of those that no number here has.
    pub fn new(unscaled: i128, scale: i8) -> Option<Self> {
        Some(Self { unscaled: BigInt::from(unscaled), scale: u32::try_from(scale).ok()? })
    }

    pub fn whole(number: i64) -> Self {
        Self { unscaled: BigInt::from(number), scale: 0 }
    }

    pub fn sign(&self) -> Sign {
        self.unscaled.sign()
    }

    pub fn is_zero(&self) -> bool {
        self.sign() == Sign::NoSign
    }

    /// How many digits it has.
    pub fn digits(&self) -> u32 {
        self.unscaled.magnitude().to_string().len() as u32
    }

    /// The power of ten of its first digit: 0 of 5, -2 of 0.05. Of zero it is 0.
    pub fn weight(&self) -> i64 {
        if self.is_zero() { 0 } else { i64::from(self.digits()) - 1 - i64::from(self.scale) }
    }

    /// The same in groups of four digits.
    pub fn group_weight(&self) -> i64 {
        self.weight().div_euclid(GROUP)
    }

    /// The first group of four digits, from 1 to 9999; of zero it is 0.
    pub fn first_group(&self) -> BigInt {
        let behind = i64::from(self.scale) + self.group_weight() * GROUP;
        shifted(&BigInt::from(self.unscaled.magnitude().clone()), -behind)
    }

    /// With another number of digits behind the point; halves are rounded away from zero.
    pub fn rounded(&self, scale: u32) -> Self {
        let unscaled = match scale.checked_sub(self.scale) {
            Some(more) => &self.unscaled * power_of_ten(more),
            None => rounded_quotient(&self.unscaled, &power_of_ten(self.scale - scale)),
        };
        Self { unscaled, scale }
    }

    /// Without the zeros that its digits behind the point end with.
    pub fn trimmed(&self) -> Self {
        let mut trimmed = self.clone();
        while trimmed.scale > 0 && (&trimmed.unscaled % 10_i32).sign() == Sign::NoSign {
            trimmed = Self { unscaled: trimmed.unscaled / 10_i32, scale: trimmed.scale - 1 };
        }
        trimmed
    }

    /// The whole number that it is, if it is one.
    pub fn as_whole(&self) -> Option<i64> {
        let unit = power_of_ten(self.scale);
        let is_whole = (&self.unscaled % &unit).sign() == Sign::NoSign;
        is_whole.then(|| i64::try_from(&self.unscaled / unit).ok()).flatten()
    }

    /// The nearest float; infinite if there is none.
    pub fn as_float(&self) -> f64 {
        format!("{}e-{}", self.unscaled, self.scale).parse().unwrap_or(f64::NAN)
    }
}

pub fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// `number * 10^by`, digits that there is no room for cut off.
pub fn shifted(number: &BigInt, by: i64) -> BigInt {
    let power = power_of_ten(u32::try_from(by.unsigned_abs()).unwrap_or(u32::MAX));
    if by < 0 { number / power } else { number * power }
}

/// A quotient, halves away from zero. The divisor is not zero.
pub fn rounded_quotient(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let doubled = dividend.magnitude() * 2u32 + divisor.magnitude();
    let quotient = BigInt::from(doubled / (divisor.magnitude() * 2u32));
    if (dividend.sign() == Sign::Minus) == (divisor.sign() == Sign::Minus) { quotient } else { -quotient }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(unscaled: i128, scale: i8) -> Number {
        Number::new(unscaled, scale).unwrap()
    }

    #[test]
    fn weights_are_those_of_first_digits() {
        let weights = |unscaled, scale| {
            let number = number(unscaled, scale);
            (number.weight(), number.group_weight(), number.first_group().to_string())
        };
        assert_eq!(weights(5, 0), (0, 0, "5".into()));
        assert_eq!(weights(5, 2), (-2, -1, "500".into()));
        assert_eq!(weights(-123_456, 1), (4, 1, "1".into()));
        assert_eq!(weights(99_999, 5), (-1, -1, "9999".into()));
        assert_eq!(weights(0, 3), (0, 0, "0".into()));
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let rounded = |unscaled, scale, to| number(unscaled, scale).rounded(to).unscaled.to_string();
        assert_eq!(
            [rounded(25, 1, 0), rounded(-25, 1, 0), rounded(24, 1, 0), rounded(25, 1, 3)],
            ["3", "-3", "2", "2500"]
        );
    }

    #[test]
    fn whole_numbers_are_seen_as_such() {
        assert_eq!(number(1500, 2).as_whole(), Some(15));
        assert_eq!(number(-1550, 2).as_whole(), None);
        assert_eq!(number(i128::MAX, 0).as_whole(), None);
    }
}
