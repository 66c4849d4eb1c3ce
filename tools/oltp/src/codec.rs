//! Keys and rows as bytes, without a value in between.
//!
//! Workloads know the types of their columns, so a key is written with a few stores, and a column of fixed width is
//! read and written where the layout says it lies in every row. The layouts themselves are the engine's: keys equal
//! what [`KeyLayout::encode`](saki_base::KeyLayout::encode) gives (tested below), places come out of the table's
//! [`RowLayout`].

use std::marker::PhantomData;

use saki_base::{Column, DataType, RowLayout, ValueRef};
use saki_mvcc::{IndexDefinition, Table, TableDefinition};

/// A key being written, on the stack.
#[derive(Clone, Copy, Debug)]
pub struct Key<const CAPACITY: usize> {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl<const CAPACITY: usize> Default for Key<CAPACITY> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const CAPACITY: usize> Key<CAPACITY> {
    #[inline]
    pub const fn new() -> Self {
        Self { bytes: [0; CAPACITY], length: 0 }
    }

    /// Adds a smallint.
    #[inline]
    pub fn int2(self, value: i16) -> Self {
        self.fixed((value ^ i16::MIN).to_be_bytes())
    }

    /// Adds an integer.
    #[inline]
    pub fn int4(self, value: i32) -> Self {
        self.fixed((value ^ i32::MIN).to_be_bytes())
    }

    /// Adds a bigint.
    #[inline]
    pub fn int8(self, value: i64) -> Self {
        self.fixed((value ^ i64::MIN).to_be_bytes())
    }

    /// Adds a text without zero bytes.
    #[inline]
    pub fn text(mut self, value: &[u8]) -> Self {
        debug_assert!(!value.contains(&0), "a zero byte would have to be escaped");
        let end = self.length + value.len();
        self.bytes[self.length..end].copy_from_slice(value);
        self.length = end;
        self.fixed([0, 0])
    }

    /// The least key above all keys that begin with this one.
    pub fn after(mut self) -> Self {
        for byte in self.bytes[..self.length].iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
        self
    }

    #[inline]
    fn fixed<const WIDTH: usize>(mut self, bytes: [u8; WIDTH]) -> Self {
        self.bytes[self.length..self.length + WIDTH].copy_from_slice(&bytes);
        self.length += WIDTH;
        self
    }
}

impl<const CAPACITY: usize> AsRef<[u8]> for Key<CAPACITY> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The integer that a key holds at `at`.
#[inline]
pub fn int4_of_key(key: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(array(&key[at..])) ^ i32::MIN
}

/// The smallint that a key holds at `at`.
#[inline]
pub fn int2_of_key(key: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(array(&key[at..])) ^ i16::MIN
}

/// The bigint that a key holds at `at`.
#[inline]
pub fn int8_of_key(key: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(array(&key[at..])) ^ i64::MIN
}

#[inline]
fn array<const WIDTH: usize>(bytes: &[u8]) -> [u8; WIDTH] {
    *bytes.first_chunk().expect("the value lies within the bytes")
}

/// A number as rows hold it: little-endian.
pub trait Number: Copy {
    /// Bytes of it.
    const WIDTH: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Number for $type {
            const WIDTH: usize = size_of::<$type>();
            #[inline]
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(array(bytes))
            }
            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes[..Self::WIDTH].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

number!(i16, i32, i64);

/// Where a NOT NULL column of fixed width lies in every row of its table.
#[derive(Clone, Copy, Debug)]
pub struct Place<T> {
    at: usize,
    number: PhantomData<T>,
}

impl<T: Number> Place<T> {
    /// The place of the column of that name. `i64` is for bigint, timestamps and numeric of up to 18 digits.
    ///
    /// # Panics
    /// If the table has no such column, or it is of another width, or nullable.
    pub fn of(table: &Table, name: &str) -> Self {
        let (column, width) = body_column(table, name);
        assert_eq!(width, Some(T::WIDTH), "column {name} is of another width");
        let at = table.row_layout().fixed_offset(column).unwrap_or_else(|| panic!("column {name} has a fixed place"));
        Self { at, number: PhantomData }
    }

    #[inline]
    pub fn read(self, body: &[u8]) -> T {
        T::read(&body[self.at..])
    }

    #[inline]
    pub fn write(self, body: &mut [u8], value: T) {
        value.write(&mut body[self.at..]);
    }
}

/// Where a nullable column of fixed width lies.
#[derive(Clone, Copy, Debug)]
pub struct NullablePlace<T> {
    value: Place<T>,
    /// Byte of the bitmap, and bit in it.
    byte: usize,
    bit: u8,
}

impl<T: Number> NullablePlace<T> {
    /// The place of the column of that name.
    ///
    /// # Panics
    /// If the table has no such column, or it is of another width, or NOT NULL.
    pub fn of(table: &Table, name: &str) -> Self {
        let layout = table.row_layout();
        let (column, width) = body_column(table, name);
        assert_eq!(width, Some(T::WIDTH), "column {name} is of another width");
        assert!(layout.columns()[column].nullable, "column {name} is nullable");
        // In a row of zeros nothing is NULL, and all columns of fixed width are where they are in every row.
        let zeros = [0; 1024];
        let bytes = layout.view(&zeros).bytes_of(column).ok().flatten().expect("a row of zeros has the column");
        let at = bytes.as_ptr().addr() - zeros.as_ptr().addr();
        let index = layout.columns()[..column].iter().filter(|column| column.nullable).count();
        Self { value: Place { at, number: PhantomData }, byte: 1 + index / 8, bit: 1 << (index % 8) }
    }

    #[inline]
    pub fn is_null(self, body: &[u8]) -> bool {
        body[self.byte] & self.bit != 0
    }

    #[inline]
    pub fn read(self, body: &[u8]) -> Option<T> {
        (!self.is_null(body)).then(|| self.value.read(body))
    }

    /// Gives the column a value.
    #[inline]
    pub fn write(self, body: &mut [u8], value: T) {
        body[self.byte] &= !self.bit;
        self.value.write(body, value);
    }
}

/// A column of variable length.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    column: usize,
}

impl Variable {
    /// The column of that name.
    ///
    /// # Panics
    /// If the table has no such column, or it is of fixed width.
    pub fn of(table: &Table, name: &str) -> Self {
        let (column, width) = body_column(table, name);
        assert_eq!(width, None, "column {name} is of fixed width");
        Self { column }
    }

    /// Its bytes, empty for NULL.
    #[inline]
    pub fn read<'a>(self, layout: &'a RowLayout, body: &'a [u8]) -> &'a [u8] {
        layout.view(body).bytes_of(self.column).ok().flatten().unwrap_or_default()
    }
}

/// Which column of the body, and how wide.
fn body_column(table: &Table, name: &str) -> (usize, Option<usize>) {
    let definition = table.definition();
    let position = definition.columns.iter().position(|column| column.name == name);
    let position = position.unwrap_or_else(|| panic!("table {} has no column {name}", definition.name));
    assert!(!definition.primary_key.contains(&position), "column {name} is in the key");
    let column = (0..position).filter(|column| !definition.primary_key.contains(column)).count();
    (column, definition.columns[position].data_type.fixed_width())
}

/// A row that rows of the same lengths are copied from, with other numbers.
///
/// # Panics
/// If the values are not of the table's body.
pub fn template(table: &Table, values: &[ValueRef<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    encode(table, values, &mut body);
    body
}

/// Puts a body into `body`, which is emptied first.
///
/// # Panics
/// If the values are not of the table's body.
#[inline]
pub fn encode(table: &Table, values: &[ValueRef<'_>], body: &mut Vec<u8>) {
    body.clear();
    table.row_layout().encode(values, body).expect("the values are of the table's columns");
}

/// A column, NOT NULL.
pub const fn column(name: &str, data_type: DataType) -> (&str, DataType, bool) {
    (name, data_type, false)
}

/// A column, nullable.
pub const fn nullable(name: &str, data_type: DataType) -> (&str, DataType, bool) {
    (name, data_type, true)
}

/// A table's definition; the first `key` columns are the primary key.
pub fn define(name: &str, key: usize, columns: &[(&str, DataType, bool)]) -> TableDefinition {
    let columns = columns.iter().map(|(name, data_type, nullable)| Column {
        name: (*name).into(),
        data_type: *data_type,
        nullable: *nullable,
    });
    TableDefinition {
        name: name.into(),
        columns: columns.collect(),
        primary_key: (0..key).collect(),
        indexes: Vec::new(),
        ..Default::default()
    }
}

/// The same with a secondary index, not unique, of the columns named.
pub fn indexed(mut definition: TableDefinition, name: &str, columns: &[&str]) -> TableDefinition {
    let position = |wanted: &&str| {
        let position = definition.columns.iter().position(|column| column.name == **wanted);
        position.unwrap_or_else(|| panic!("there is no column {wanted} to index"))
    };
    let columns = columns.iter().map(position).collect();
    definition.indexes.push(IndexDefinition { name: name.into(), columns, unique: false, ..Default::default() });
    definition
}

#[cfg(test)]
mod tests {
    use saki_base::{KeyColumn, KeyLayout, Random};
    use saki_mvcc::Catalog;

    use super::*;

    fn key_column(data_type: DataType) -> KeyColumn {
        KeyColumn { data_type, nullable: false, descending: false }
    }

    #[test]
    fn keys_are_those_of_the_layout() {
        let types = [DataType::Int2, DataType::Int4, DataType::Int8, DataType::Varchar(16), DataType::Int4];
        let layout = KeyLayout::new(types.map(key_column));
        let mut random = Random::new(1);
        for text in ["", "a", "BARBARBAR", "OUGHTOUGHTOUGHT"] {
            for _ in 0..100 {
                let bits = random.next_u64();
                let (small, middle, large) = (bits as i16, bits as i32, bits as i64);
                let key = Key::<64>::new().int2(small).int4(middle).int8(large).text(text.as_bytes()).int4(7);
                let values = [
                    ValueRef::Int2(small),
                    ValueRef::Int4(middle),
                    ValueRef::Int8(large),
                    ValueRef::Text(text),
                    ValueRef::Int4(7),
                ];
                let mut expected = Vec::new();
                layout.encode(&values, &mut expected).expect("values of the layout");
                assert_eq!(key.as_ref(), expected);
                assert_eq!(int2_of_key(&expected, 0), small);
                assert_eq!(int4_of_key(&expected, 2), middle);
                assert_eq!(int8_of_key(&expected, 6), large);
            }
        }
    }

    #[test]
    fn after_a_prefix_comes_nothing_with_it() {
        let prefix = Key::<16>::new().int4(1).text(b"ABLE");
        assert!(Key::<16>::new().int4(1).text(b"ABLE").int4(i32::MAX).as_ref() < prefix.after().as_ref());
        assert!(Key::<16>::new().int4(1).text(b"ABLEX").as_ref() > prefix.after().as_ref());
        assert_eq!(Key::<4>::new().int4(255).after().as_ref(), Key::<4>::new().int4(256).as_ref());
    }

    #[test]
    fn places_are_where_the_layout_puts_the_columns() {
        let definition = define(
            "t",
            1,
            &[
                column("id", DataType::Int4),
                column("small", DataType::Int2),
                nullable("other", DataType::Int8),
                column("text", DataType::Varchar(10)),
                nullable("when", DataType::Timestamp),
                column("amount", DataType::Decimal { precision: 12, scale: 2 }),
            ],
        );
        let mut catalog = Catalog::in_memory(1, 1);
        let table = catalog.add(indexed(definition, "by_small", &["small", "id"])).expect("a good definition");
        let row = |small, when, amount| {
            let when = Option::map_or(when, ValueRef::Null, ValueRef::Timestamp);
            let values = [
                ValueRef::Int2(small),
                ValueRef::Null,
                ValueRef::Text("word"),
                when,
                ValueRef::Decimal(i128::from(amount)),
            ];
            template(&table, &values)
        };
        let (small, when) = (Place::<i16>::of(&table, "small"), NullablePlace::<i64>::of(&table, "when"));
        let (amount, text) = (Place::<i64>::of(&table, "amount"), Variable::of(&table, "text"));
        let mut body = row(-3, None, -100);
        assert_eq!((small.read(&body), when.read(&body), amount.read(&body)), (-3, None, -100));
        assert_eq!(text.read(table.row_layout(), &body), b"word");
        assert!(NullablePlace::<i64>::of(&table, "other").is_null(&body));
        small.write(&mut body, 9);
        when.write(&mut body, 77);
        amount.write(&mut body, 5);
        assert_eq!(body, row(9, Some(77), 5));
        assert_eq!(when.read(&body), Some(77));
    }
}
