//! The order of values: PostgreSQL's for `jsonb` (section 8.14.4).

use super::fault::{DEPTH_MAX, JsonFault};
use super::number::write_key;
use super::shape::{Kind, Shape, kind, shape};
use super::string::unquoted;
use crate::stack::with_room;

/// Bytes that are in the order of the values, and equal for those that are equal, numbers by their value. Strings are
/// ordered by their bytes.
///
/// # Errors
/// [`JsonFault::TooDeep`].
pub fn sort_key(text: &str) -> Result<Vec<u8>, JsonFault> {
    let mut out = Vec::with_capacity(text.len());
    // By itself an empty array comes before all else.
    match shape(text)? {
        Shape::Array(elements) if elements.is_empty() => out.push(0),
        Shape::Scalar(_) => write(text, DEPTH_MAX, &mut out)?,
        _ => with_room(|| write(text, DEPTH_MAX, &mut out))?,
    }
    Ok(out)
}

fn write(text: &str, levels: usize, out: &mut Vec<u8>) -> Result<(), JsonFault> {
    let levels = levels.checked_sub(1).ok_or(JsonFault::TooDeep)?;
    match shape(text)? {
        Shape::Scalar(scalar) => match kind(scalar) {
            Kind::String => {
                out.push(2);
                write_string(&unquoted(scalar)?, out);
            }
            Kind::Number => {
                out.push(3);
                write_key(scalar, out)?;
            }
            Kind::Boolean => out.extend_from_slice(&[4, u8::from(scalar == "true")]),
            _ => out.push(1),
        },
        Shape::Array(elements) => {
            out.push(5);
            out.extend_from_slice(&(elements.len() as u32).to_be_bytes());
            for element in elements {
                write(element, levels, out)?;
            }
        }
        Shape::Object(pairs) => {
            out.push(6);
            out.extend_from_slice(&(pairs.len() as u32).to_be_bytes());
            for (key, value) in pairs {
                write_string(&key, out);
                write(value, levels, out)?;
            }
        }
    }
    Ok(())
}

/// No text holds a zero.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_values() {
        let ordered = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "\"b\"",
            "-100",
            "-99.5",
            "-1",
            "-0.01",
            "0",
            "0.001",
            "0.5",
            "1",
            "1.5",
            "2",
            "10",
            "1000000000000000000000000000000000000000000",
            "false",
            "true",
            "[null]",
            "[2]",
            "[10]",
            "[1, 1]",
            "{}",
            "{\"b\": 0}",
            "{\"b\": 1}",
            "{\"a\": 1, \"b\": 1}",
        ];
        let keys: Vec<_> = ordered.iter().map(|text| sort_key(text).unwrap()).collect();
        for (at, pair) in keys.windows(2).enumerate() {
            assert!(pair[0] < pair[1], "{} {}", ordered[at], ordered[at + 1]);
        }
        for (one, other) in [("1", "1.00"), ("0", "0.0"), ("-1.5", "-1.50"), ("[100]", "[100.0]")] {
            assert_eq!(sort_key(one), sort_key(other), "{one} {other}");
        }
    }
}
