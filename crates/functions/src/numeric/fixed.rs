//! Logarithms and powers of e, in numbers with a fixed count of digits behind the point.

use num_bigint::{BigInt, Sign};

use super::number::{Number, power_of_ten, rounded_quotient, shifted};

/// What is computed with: `digits` digits behind the point.
pub struct Fixed {
    pub digits: u32,
    one: BigInt,
    ln_two: BigInt,
    ln_ten: BigInt,
}

impl Fixed {
    pub fn new(digits: u32) -> Self {
        let one = power_of_ten(digits);
        // ln 2 = 2 atanh 1/3, and ln 10 = 3 ln 2 + 2 atanh 1/9.
        let ln_two = inverse_tangent(&(&one / 3), &one) * 2;
        let ln_ten = &ln_two * 3 + inverse_tangent(&(&one / 9), &one) * 2;
        Self { digits, one, ln_two, ln_ten }
    }

    pub fn of(&self, number: &Number) -> BigInt {
        number.rounded(self.digits).unscaled
    }

    /// The natural logarithm of a number above zero; the last digits are wrong.
    pub fn ln(&self, number: &Number) -> BigInt {
        // The number is `part * 10^tens * 2^twos`, with a part near 1.
        let tens = number.weight();
        let mut part = shifted(&number.unscaled, i64::from(self.digits) - i64::from(number.scale) - tens);
        let (least, mut twos) = (&self.one * 2 / 3, 0u32);
        while part > &least * 2 {
            part = &part / 2;
            twos += 1;
        }
        let tangent = (&part - &self.one) * &self.one / (&part + &self.one);
        inverse_tangent(&tangent, &self.one) * 2 + &self.ln_two * twos + &self.ln_ten * tens
    }

    /// `e^exponent` as `part * 10^tens`, where the part is between 0.3 and 3.2.
    pub fn exp(&self, exponent: &BigInt) -> (BigInt, i64) {
        /// Halvings before the series: it ends sooner, and each is undone by a multiplication.
        const HALVINGS: usize = 8;
        let tens = rounded_quotient(exponent, &self.ln_ten);
        let small = (exponent - &tens * &self.ln_ten) >> HALVINGS;
        let (mut sum, mut term, mut count) = (self.one.clone(), self.one.clone(), 1u32);
        while term.sign() != Sign::NoSign {
            term = &term * &small / &self.one / count;
            sum += &term;
            count += 1;
        }
        for _ in 0..HALVINGS {
            sum = &sum * &sum / &self.one;
        }
        (sum, i64::try_from(tens).unwrap_or(i64::MAX))
    }
}

/// The inverse hyperbolic tangent, by its series.
fn inverse_tangent(of: &BigInt, one: &BigInt) -> BigInt {
    let square = of * of / one;
    let (mut sum, mut power, mut count) = (of.clone(), of.clone(), 3u32);
    loop {
        power = &power * &square / one;
        let term = &power / count;
        if term.sign() == Sign::NoSign {
            return sum;
        }
        sum += term;
        count += 2;
    }
}
