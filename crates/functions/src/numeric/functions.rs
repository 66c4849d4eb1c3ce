//! Quotients, roots, logarithms and powers of numbers, with as many digits behind the point as PostgreSQL gives them:
//! at least sixteen digits that count, as it reckons before it knows the result, and never fewer behind the point than
//! the arguments have.

use num_bigint::{BigInt, Sign};

use super::fixed::Fixed;
use super::number::{Number, power_of_ten, rounded_quotient, shifted};
use saki_catalog::SqlError;

type Result<T> = std::result::Result<T, SqlError>;

/// Digits that count in a result, at least.
const SIGNIFICANT: i64 = 16;
/// Digits behind the point, at most.
const SCALE_MAX: i64 = 1000;
/// Digits that are computed beside those of the result.
const SPARE: i64 = 12;
/// Powers of ten beyond this are no numbers here, whatever their digits are.
const WEIGHT_MAX: f64 = 100.0;
const LOG10_E: f64 = std::f64::consts::LOG10_E;

/// # Errors
/// 22012.
pub fn divide(dividend: &Number, divisor: &Number) -> Result<Number> {
    if divisor.is_zero() {
        return Err(SqlError::data("division by zero").code("22012"));
    }
    let shorter = i64::from(dividend.first_group() <= divisor.first_group());
    let weight = dividend.group_weight() - divisor.group_weight() - shorter;
    let scale = scale(SIGNIFICANT - weight * 4, &[dividend, divisor]);
    Ok(quotient(dividend, divisor, scale))
}

/// A quotient of so many digits behind the point. The divisor is not zero.
pub fn quotient(dividend: &Number, divisor: &Number, scale: u32) -> Number {
    let more = i64::from(scale) + i64::from(divisor.scale) - i64::from(dividend.scale);
    let unscaled = if more < 0 {
        rounded_quotient(&dividend.unscaled, &shifted(&divisor.unscaled, -more))
    } else {
        rounded_quotient(&shifted(&dividend.unscaled, more), &divisor.unscaled)
    };
    Number { unscaled, scale }
}

/// # Errors
/// 2201F for a number below zero.
pub fn sqrt(number: &Number) -> Result<Number> {
    if number.sign() == Sign::Minus {
        return Err(SqlError::data("cannot take square root of a negative number").code("2201F"));
    }
    let scale = scale(SIGNIFICANT + 1 - (number.group_weight() + 1) * 2, &[number]);
    Ok(root(number, scale))
}

/// A square root of a number that is not below zero, which has at most twice as many digits behind the point.
pub fn root(number: &Number, scale: u32) -> Number {
    let square = shifted(&number.unscaled, 2 * i64::from(scale) - i64::from(number.scale));
    let root = square.sqrt();
    // More than half way to the next.
    let is_more = &square - &root * &root > root;
    Number { unscaled: root + i32::from(is_more), scale }
}

/// `e^number`.
///
/// # Errors
/// 22003.
pub fn exp(number: &Number) -> Result<Number> {
    let weight = number.as_float() * LOG10_E;
    let scale = scale(SIGNIFICANT - weight.clamp(-SCALE_MAX as f64, SCALE_MAX as f64) as i64, &[number]);
    power_of_e(number, weight, scale)
}

/// `e^exponent`, a number of about `10^weight`.
fn power_of_e(exponent: &Number, weight: f64, scale: u32) -> Result<Number> {
    if weight > WEIGHT_MAX {
        return Err(overflow());
    }
    if weight < -f64::from(scale) - 1.0 {
        return Ok(Number { unscaled: BigInt::ZERO, scale });
    }
    let fixed = Fixed::new(digits(i64::from(scale) + weight as i64 + SPARE + exponent.weight().max(0)));
    let (part, tens) = fixed.exp(&fixed.of(exponent));
    let behind = i64::from(fixed.digits) - tens;
    Ok(match u32::try_from(behind) {
        Ok(behind) => Number { unscaled: part, scale: behind }.rounded(scale),
        Err(_) => Number { unscaled: shifted(&part, -behind), scale: 0 }.rounded(scale),
    })
}

/// # Errors
/// 2201E.
pub fn ln(number: &Number) -> Result<Number> {
    positive(number)?;
    let weight = logarithm_weight(number);
    let scale = scale(SIGNIFICANT - weight, &[number]);
    let fixed = Fixed::new(digits(i64::from(scale) + SPARE));
    Ok(Number { unscaled: fixed.ln(number), scale: fixed.digits }.rounded(scale))
}

/// # Errors
/// 2201E, and 22012 for the base 1.
pub fn log(base: &Number, number: &Number) -> Result<Number> {
    positive(base)?;
    positive(number)?;
    let (of_base, of_number) = (logarithm_weight(base), logarithm_weight(number));
    let weight = of_number - of_base;
    let scale = scale(SIGNIFICANT - weight, &[base, number]);
    // Both with as many digits that count as the result has.
    let spare = SPARE - of_base.min(0) - of_number.min(0);
    let fixed = Fixed::new(digits(i64::from(scale) + weight.abs() + spare));
    let logarithm = |of| Number { unscaled: fixed.ln(of), scale: fixed.digits };
    let divisor = logarithm(base);
    if base.as_whole() == Some(1) || divisor.is_zero() {
        return Err(SqlError::data("division by zero").code("22012"));
    }
    Ok(quotient(&logarithm(number), &divisor, scale))
}

fn positive(number: &Number) -> Result<()> {
    let message = match number.sign() {
        Sign::Minus => "cannot take logarithm of a negative number",
        Sign::NoSign => "cannot take logarithm of zero",
        Sign::Plus => return Ok(()),
    };
    Err(SqlError::data(message).code("2201E"))
}

/// `base^exponent`.
///
/// # Errors
/// 2201F where there is no such number, 22003 where it is too large.
pub fn power(base: &Number, exponent: &Number) -> Result<Number> {
    let undefined = |message: &str| Err(SqlError::data(message).code("2201F"));
    if base.is_zero() && exponent.sign() == Sign::Minus {
        return undefined("zero raised to a negative power is undefined");
    }
    if base.sign() == Sign::Minus && (&exponent.unscaled % power_of_ten(exponent.scale)).sign() != Sign::NoSign {
        return undefined("a negative number raised to a non-integer power yields a complex result");
    }
    if let Some(whole) = exponent.as_whole().and_then(|whole| i32::try_from(whole).ok()) {
        return whole_power(base, whole, scale(SIGNIFICANT, &[base]));
    }
    if base.is_zero() {
        return Ok(Number { unscaled: BigInt::ZERO, scale: SIGNIFICANT as u32 });
    }
    let positive = Number { unscaled: BigInt::from(base.unscaled.magnitude().clone()), scale: base.scale };
    let exponent_weight = exponent.weight().max(0);
    // Near enough to know how many digits the result has.
    let near = Fixed::new(digits(SIGNIFICANT + SPARE + exponent_weight - logarithm_weight(&positive).min(0)));
    let product = |fixed: &Fixed| Number {
        unscaled: fixed.ln(&positive) * &exponent.unscaled,
        scale: fixed.digits + exponent.scale,
    };
    let weight = product(&near).as_float() * LOG10_E;
    if weight > WEIGHT_MAX {
        return Err(overflow());
    }
    let scale = scale(SIGNIFICANT - weight.max(-SCALE_MAX as f64) as i64, &[base, exponent]);
    let fixed = Fixed::new(digits(i64::from(scale) + weight as i64 + SPARE + exponent_weight + SIGNIFICANT));
    let power = power_of_e(&product(&fixed), weight, scale)?;
    let is_odd = base.sign() == Sign::Minus && (&exponent.unscaled / power_of_ten(exponent.scale)).bit(0);
    Ok(if is_odd { Number { unscaled: -power.unscaled, scale } } else { power })
}

/// `base^exponent` by multiplication.
fn whole_power(base: &Number, exponent: i32, scale: u32) -> Result<Number> {
    let of = |unscaled| Number { unscaled, scale: 0 };
    if exponent == 0 {
        return Ok(Number::whole(1).rounded(scale));
    }
    if base.is_zero() {
        return Ok(Number { unscaled: BigInt::ZERO, scale });
    }
    let weight = f64::from(exponent) * logarithm(base) * LOG10_E;
    if weight > WEIGHT_MAX {
        return Err(overflow());
    }
    if weight + 1.0 < -f64::from(scale) {
        return Ok(of(BigInt::ZERO).rounded(scale));
    }
    // Digits that count, kept after each multiplication: of a product's first digits, errors are added up.
    let errors = f64::from(exponent.unsigned_abs()).log10();
    let kept = digits(i64::from(scale) + weight.abs() as i64 + errors as i64 + SPARE);
    let cut = |number: Number| match number.digits().checked_sub(kept) {
        // A number without digits behind the point has all of them.
        Some(less) if number.scale > 0 => {
            let scale = number.scale.saturating_sub(less);
            number.rounded(scale)
        }
        _ => number,
    };
    let times = |one: &Number, other: &Number| {
        cut(Number { unscaled: &one.unscaled * &other.unscaled, scale: one.scale + other.scale })
    };
    let (mut power, mut square, mut rest) = (Number::whole(1), base.clone(), exponent.unsigned_abs());
    loop {
        if rest & 1 == 1 {
            power = times(&power, &square);
        }
        rest >>= 1;
        if rest == 0 {
            break;
        }
        square = times(&square, &square);
    }
    Ok(if exponent < 0 { quotient(&Number::whole(1), &power, scale) } else { power.rounded(scale) })
}

/// A result's scale: as many digits as are asked for, and as the arguments have.
fn scale(asked: i64, arguments: &[&Number]) -> u32 {
    let most = arguments.iter().map(|number| i64::from(number.scale)).max().unwrap_or(0);
    asked.max(most).clamp(0, SCALE_MAX) as u32
}

fn digits(count: i64) -> u32 {
    u32::try_from(count.max(SIGNIFICANT + SPARE)).unwrap_or(u32::MAX)
}

/// The natural logarithm of a number other than zero, without its sign, by its first digits.
fn logarithm(number: &Number) -> f64 {
    let first = i64::from(number.digits()).min(17);
    let leading = shifted(&BigInt::from(number.unscaled.magnitude().clone()), first - i64::from(number.digits()));
    let leading: f64 = leading.to_string().parse().unwrap_or(1.0);
    leading.ln() + (number.weight() + 1 - first) as f64 * std::f64::consts::LN_10
}

/// The power of ten of the first digit of a number's logarithm, as PostgreSQL estimates it.
fn logarithm_weight(number: &Number) -> i64 {
    let less_one = Number { unscaled: &number.unscaled - power_of_ten(number.scale), scale: number.scale };
    let tenth = BigInt::from(less_one.unscaled.magnitude() * 10u32) <= power_of_ten(number.scale);
    if tenth {
        // ln(1 + x) is about x.
        return less_one.weight();
    }
    logarithm(number).abs().log10() as i64
}

fn overflow() -> SqlError {
    SqlError::data("value overflows numeric format").code("22003")
}
