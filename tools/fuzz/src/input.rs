//! Reading choices off the front of fuzzed bytes.

use saki_base::{DataType, Element};

/// Bytes not yet used. Past their end, everything is zero.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Columns of a layout: at most eight, each of any type. The second is whether NULL is allowed, the third
    /// whether the order is descending.
    pub fn columns(&mut self) -> Vec<(DataType, bool, bool)> {
        let count = self.byte() % 9;
        (0..count)
            .map(|_| {
                let choice = self.byte();
                (data_type(choice & 0x3f), choice & 0x40 != 0, choice & 0x80 != 0)
            })
            .collect()
    }

    pub fn data_type(&mut self) -> DataType {
        data_type(self.byte())
    }
}

/// Types a body chooses from.
pub const DATA_TYPES: [DataType; 20] = [
    DataType::Bool,
    DataType::Int2,
    DataType::Int4,
    DataType::Int8,
    DataType::Float4,
    DataType::Float8,
    DataType::Decimal { precision: 15, scale: 2 },
    DataType::Decimal { precision: 38, scale: 10 },
    DataType::Text,
    DataType::Varchar(12),
    DataType::Char(10),
    DataType::Bytea,
    DataType::Date,
    DataType::Timestamp,
    DataType::Timestamptz,
    DataType::Uuid,
    DataType::Time,
    DataType::Interval,
    DataType::Json,
    DataType::Jsonb,
];

/// The type that a byte chooses.
pub fn data_type(choice: u8) -> DataType {
    let array = |element| Element::new(element).map_or(element, DataType::Array);
    let choice = choice as usize % (DATA_TYPES.len() + 2);
    let last = if choice == DATA_TYPES.len() { DataType::Int4 } else { DataType::Text };
    DATA_TYPES.get(choice).copied().unwrap_or_else(|| array(last))
}
