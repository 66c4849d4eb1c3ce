//! Large values of a call stay reserved for as long as anybody has them, or a part of them: the memory that they lie in
//! owns the reservation. Whoever passes them on need not count them.

use std::sync::Arc;

use arrow::array::{ArrayData, make_array};
use arrow::buffer::Buffer;
use arrow_array::{Array, ArrayRef};
use bytes::Bytes;
use datafusion::common::Result;
use saki_base::memory::Reservation;
use saki_plan::execution::memory::exhausted;

/// Values that are less are not worth it, in a batch: few batches are on their way at a time.
pub const KEPT_BYTES: usize = 16 << 20;

/// Values with what is reserved for them: from now on as much as they take, until the last of them is dropped.
///
/// # Errors
/// 53200 if they have come to more than was reserved, and there is not so much.
pub fn kept(values: ArrayRef, mut held: Reservation) -> Result<ArrayRef> {
    let bytes = values.get_array_memory_size();
    if bytes < KEPT_BYTES {
        return Ok(values);
    }
    held.resize(bytes).map_err(exhausted)?;
    Ok(make_array(owning(values.to_data(), &Arc::new(held))?))
}

/// The same values, each of whose buffers has a part in the reservation: those of a list's elements live by themselves.
fn owning(data: ArrayData, held: &Arc<Reservation>) -> Result<ArrayData> {
    let buffers = data.buffers().iter().map(|buffer| match buffer.is_empty() {
        true => buffer.clone(),
        false => Buffer::from(Bytes::from_owner(Owned { buffer: buffer.clone(), _held: Arc::clone(held) })),
    });
    let buffers = buffers.collect();
    let children = data.child_data().iter().map(|child| owning(child.clone(), held)).collect::<Result<_>>()?;
    Ok(data.into_builder().buffers(buffers).child_data(children).build()?)
}

/// A buffer, and what is reserved for it.
struct Owned {
    buffer: Buffer,
    _held: Arc<Reservation>,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::cast::AsArray;
    use saki_base::memory::Pool;

    use super::*;

    #[test]
    fn elements_of_a_list_keep_what_is_reserved_when_the_list_has_gone() {
        let pool = Arc::new(Pool::new(1 << 30));
        let mut lists = ListBuilder::new(StringBuilder::new());
        let text = "x".repeat(1 << 20);
        for row in 0..3_usize {
            lists.append_value((0..8 * row).map(|at| (at != 3).then_some(text.as_str())));
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let given = kept(Arc::clone(&lists), pool.reserve(1).unwrap()).unwrap();
        assert_eq!((&given, pool.used()), (&lists, lists.get_array_memory_size()));
        let elements = given.as_list::<i32>().value(2);
        drop(given);
        assert_eq!((elements.len(), pool.used()), (16, lists.get_array_memory_size()));
        drop(elements);
        assert_eq!(pool.used(), 0);
        let small: ArrayRef = lists.slice(0, 1);
        assert!(kept(lists, pool.reserve(pool.limit()).unwrap()).is_ok());
        assert_eq!((small.len(), pool.used()), (1, 0));
        let tight = Arc::new(Pool::new(1 << 20));
        assert!(kept(small, tight.reserve(1).unwrap()).is_err(), "they are in memory of 24 MB");
    }
}
