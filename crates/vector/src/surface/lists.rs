//! Arrays as lists of elements, and as the bytes that rows, segments and operators hold ([`saki_base::array`]).

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, builder::BinaryViewBuilder};
use arrow_schema::DataType as ArrowType;
use saki_base::{Element, array};

pub use super::buffer::decode;
use super::types::{array_value, data_type};

/// The function that gives lists as these bytes: what compares arrays compares them.
pub const ARRAY_ORDER: &str = "array_order";

/// The elements of lists of a type that are held as bytes; `None`: these lists are no column's.
pub fn element_of(list: &ArrowType) -> Option<Element> {
    match list {
        ArrowType::List(field) => Element::new(data_type(field.data_type())?),
        _ => None,
    }
}

/// The bytes of lists.
///
/// # Errors
/// Lists of other elements, and a decimal of more digits than it has.
pub fn encode(element: Element, lists: &dyn Array) -> Result<BinaryViewArray, String> {
    let wrong = || format!("lists of {} where {} are expected", lists.data_type(), element.data_type());
    let lists = lists.as_list_opt::<i32>().ok_or_else(wrong)?;
    let mut arrays = BinaryViewBuilder::with_capacity(lists.len());
    let mut bytes = Vec::new();
    for list in lists.iter() {
        let Some(list) = list else {
            arrays.append_null();
            continue;
        };
        bytes.clear();
        for row in 0..list.len() {
            let value = array_value(&list, element.data_type(), row).ok_or_else(wrong)?;
            array::push(element, value, &mut bytes).map_err(|error| error.to_string())?;
        }
        arrays.append_value(&bytes);
    }
    Ok(arrays.finish())
}

/// Lists in the form that operators hold them in, if there is one.
///
/// # Errors
/// As [`encode`].
pub fn held(lists: &ArrayRef) -> Option<Result<BinaryViewArray, String>> {
    element_of(lists.data_type()).map(|element| encode(element, lists))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use saki_base::DataType;

    use super::*;
    use crate::surface::arrow_type;

    #[test]
    fn lists_are_held_as_bytes_and_come_back() {
        for data_type in [DataType::Int4, DataType::Text, DataType::Decimal { precision: 9, scale: 2 }, DataType::Uuid]
        {
            let element = Element::new(data_type).unwrap();
            let text = match data_type {
                DataType::Text => "{a,NULL,\"b c\"}",
                DataType::Uuid => "{00000000-0000-0000-0000-000000000001,NULL}",
                _ => "{1,NULL,3}",
            };
            let saki_base::Value::Bytea(bytes) = saki_base::Value::parse(DataType::Array(element), text).unwrap()
            else {
                panic!("bytes");
            };
            let arrays = [Some(bytes.as_slice()), None, Some(&[][..])];
            let lists = decode(element, arrays.into_iter()).unwrap();
            assert_eq!((lists.data_type(), lists.null_count()), (&arrow_type(DataType::Array(element)), 1));
            let lists: ArrayRef = Arc::new(lists);
            let held = held(&lists).unwrap().unwrap();
            assert!(held.iter().eq(arrays), "{data_type}");
        }
        assert!(decode(Element::new(DataType::Int4).unwrap(), [Some(&[7][..])].into_iter()).is_err());
    }
}
