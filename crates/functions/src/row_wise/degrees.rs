//! Trigonometry in degrees, exact where PostgreSQL's is: the functions of multiples of 30 and 45 degrees have no error.
//!
//! An angle is brought into the first quadrant, and what is computed there is divided by what the same computation
//! gives for an angle whose result is known.

use datafusion::common::{Result, ScalarValue};
use saki_catalog::SqlError;

use super::definition::Takes::Float;
use super::definition::{Definition, Gives, define, float};

pub const FUNCTIONS: &[Definition] = &[
    define("acosd", &[Float], Gives::Float, |values| {
        let x = of_ratio(float(values, 0))?;
        given(if x >= 0.0 { acos_of_positive(x) } else { 90.0 + asin_of_positive(-x) })
    }),
    define("asind", &[Float], Gives::Float, |values| {
        let x = of_ratio(float(values, 0))?;
        given(if x >= 0.0 { asin_of_positive(x) } else { -asin_of_positive(-x) })
    }),
    define("atand", &[Float], Gives::Float, |values| given(float(values, 0).atan() / 1.0_f64.atan() * 45.0)),
    define("atan2d", &[Float, Float], Gives::Float, |values| {
        given(float(values, 0).atan2(float(values, 1)) / 1.0_f64.atan() * 45.0)
    }),
    define("cosd", &[Float], Gives::Float, |values| {
        let Angle { within, cosine, .. } = Angle::of(float(values, 0))?;
        given(cosine * cos(within))
    }),
    define("cotd", &[Float], Gives::Float, |values| {
        let Angle { within, sine, cosine } = Angle::of(float(values, 0))?;
        given(unsigned(sine * cosine * (cos(within) / sin(within) / (cos(45.0) / sin(45.0)))))
    }),
    define("sind", &[Float], Gives::Float, |values| {
        let Angle { within, sine, .. } = Angle::of(float(values, 0))?;
        given(sine * sin(within))
    }),
    define("tand", &[Float], Gives::Float, |values| {
        let Angle { within, sine, cosine } = Angle::of(float(values, 0))?;
        given(unsigned(sine * cosine * (sin(within) / cos(within) / (sin(45.0) / cos(45.0)))))
    }),
];

fn given(number: f64) -> Result<ScalarValue> {
    Ok(ScalarValue::Float64(Some(number)))
}

fn out_of_range() -> SqlError {
    SqlError::data("input is out of range").code("22003")
}

fn of_ratio(number: f64) -> Result<f64> {
    match number.is_nan() || number.abs() <= 1.0 {
        true => Ok(number),
        false => Err(out_of_range().into()),
    }
}

/// Zero has no sign here.
fn unsigned(number: f64) -> f64 {
    if number == 0.0 { 0.0 } else { number }
}

/// An angle as one of the first quadrant, and the signs of its sine and cosine.
struct Angle {
    within: f64,
    sine: f64,
    cosine: f64,
}

impl Angle {
    fn of(degrees: f64) -> Result<Self> {
        if degrees.is_infinite() {
            return Err(out_of_range().into());
        }
        let mut angle = Self { within: degrees % 360.0, sine: 1.0, cosine: 1.0 };
        if angle.within < 0.0 {
            (angle.within, angle.sine) = (-angle.within, -1.0);
        }
        if angle.within > 180.0 {
            (angle.within, angle.sine) = (360.0 - angle.within, -angle.sine);
        }
        if angle.within > 90.0 {
            (angle.within, angle.cosine) = (180.0 - angle.within, -1.0);
        }
        Ok(angle)
    }
}

/// Of 0 to 90 degrees.
fn sin(degrees: f64) -> f64 {
    if degrees <= 30.0 { small_sin(degrees) } else { large_cos(90.0 - degrees) }
}

/// Of 0 to 90 degrees.
fn cos(degrees: f64) -> f64 {
    if degrees <= 60.0 { large_cos(degrees) } else { small_sin(90.0 - degrees) }
}

/// Of 0 to 30 degrees, where it is a half.
fn small_sin(degrees: f64) -> f64 {
    degrees.to_radians().sin() / 30.0_f64.to_radians().sin() / 2.0
}

/// Of 0 to 60 degrees, where it is a half.
fn large_cos(degrees: f64) -> f64 {
    let below_one = |degrees: f64| 1.0 - degrees.to_radians().cos();
    1.0 - below_one(degrees) / below_one(60.0) / 2.0
}

/// Of 0 to 1.
fn asin_of_positive(x: f64) -> f64 {
    match x <= 0.5 {
        true => x.asin() / 0.5_f64.asin() * 30.0,
        false => 90.0 - x.acos() / 0.5_f64.acos() * 60.0,
    }
}

/// Of 0 to 1.
fn acos_of_positive(x: f64) -> f64 {
    match x <= 0.5 {
        true => 90.0 - x.asin() / 0.5_f64.asin() * 30.0,
        false => x.acos() / 0.5_f64.acos() * 60.0,
    }
}
