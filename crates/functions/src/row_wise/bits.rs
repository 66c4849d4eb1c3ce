//! Bits and bytes of a bytea, the lowest bit of its first byte being number 0.

use datafusion::common::{Result, ScalarValue};
use saki_catalog::SqlError;

use super::definition::Takes::{Bytes, Integer};
use super::definition::{Definition, Gives, bytes, define, integer};

pub const FUNCTIONS: &[Definition] = &[
    define("bit_count", &[Bytes], Gives::Bigint, |values| {
        let ones = bytes(values, 0).iter().map(|byte| i64::from(byte.count_ones())).sum();
        Ok(ScalarValue::Int64(Some(ones)))
    }),
    define("get_bit", &[Bytes, Integer], Gives::Integer, |values| {
        let (of, number) = (bytes(values, 0), integer(values, 1));
        let at = within(number, of.len() * 8)?;
        Ok(ScalarValue::Int32(Some((of[at / 8] >> (at % 8) & 1).into())))
    }),
    define("get_byte", &[Bytes, Integer], Gives::Integer, |values| {
        let of = bytes(values, 0);
        Ok(ScalarValue::Int32(Some(of[within(integer(values, 1), of.len())?].into())))
    }),
    define("set_bit", &[Bytes, Integer, Integer], Gives::Bytes, |values| {
        let (mut of, value) = (bytes(values, 0).to_vec(), integer(values, 2));
        let at = within(integer(values, 1), of.len() * 8)?;
        match value {
            0 => of[at / 8] &= !(1 << (at % 8)),
            1 => of[at / 8] |= 1 << (at % 8),
            _ => return Err(SqlError::data("new bit must be 0 or 1").code("22023").into()),
        }
        Ok(ScalarValue::Binary(Some(of)))
    }),
    define("set_byte", &[Bytes, Integer, Integer], Gives::Bytes, |values| {
        let mut of = bytes(values, 0).to_vec();
        let at = within(integer(values, 1), of.len())?;
        of[at] = integer(values, 2) as u8;
        Ok(ScalarValue::Binary(Some(of)))
    }),
];

fn within(number: i64, count: usize) -> Result<usize> {
    let last = count as i64 - 1;
    match usize::try_from(number) {
        Ok(number) if number < count => Ok(number),
        _ => Err(SqlError::data(format!("index {number} out of valid range, 0..{last}")).code("2202E").into()),
    }
}
