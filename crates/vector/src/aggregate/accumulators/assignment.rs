//! Which group each row of a batch belongs to, and adding up by it.

use arrow_buffer::NullBuffer;

/// Groups that one byte can name.
pub(crate) const FEW: usize = 256;

/// Sums of a group that rows take in turn: with few groups the next row likely has the same group, and would wait for
/// the sum that the last one is still storing.
const LANES: usize = 4;

/// The group of each row.
#[derive(Clone, Copy)]
pub(crate) enum Assignment<'a> {
    /// All of them to group 0.
    Whole,
    /// To at most [`FEW`] groups.
    Few(&'a [u8]),
    Many(&'a [u32]),
}

impl Assignment<'_> {
    /// Calls `take` with the group and the value of each row.
    #[inline]
    pub(crate) fn for_each<T>(&self, values: impl IntoIterator<Item = T>, mut take: impl FnMut(usize, T)) {
        let values = values.into_iter();
        match self {
            Self::Whole => values.for_each(|value| take(0, value)),
            Self::Few(groups) => groups.iter().zip(values).for_each(|(group, value)| take(*group as usize, value)),
            Self::Many(groups) => groups.iter().zip(values).for_each(|(group, value)| take(*group as usize, value)),
        }
    }

    /// Adds each row's value to the total of its group. Sums must be known to stay within 64 bits.
    pub(crate) fn add(&self, values: &[i64], totals: &mut [i64]) {
        match self {
            Self::Whole => {
                let sum = values.iter().fold(0i64, |sum, value| sum.wrapping_add(*value));
                totals[0] = totals[0].wrapping_add(sum);
            }
            Self::Few(groups) => {
                let mut lanes = [[0i64; FEW]; LANES];
                let (value_blocks, last_values) = values.as_chunks::<LANES>();
                let (group_blocks, last_groups) = groups.as_chunks::<LANES>();
                for (values, groups) in value_blocks.iter().zip(group_blocks) {
                    for lane in 0..LANES {
                        let sum = &mut lanes[lane][groups[lane] as usize];
                        *sum = sum.wrapping_add(values[lane]);
                    }
                }
                for (value, group) in last_values.iter().zip(last_groups) {
                    let sum = &mut lanes[0][*group as usize];
                    *sum = sum.wrapping_add(*value);
                }
                for lane in &lanes {
                    totals.iter_mut().zip(lane).for_each(|(total, sum)| *total = total.wrapping_add(*sum));
                }
            }
            Self::Many(groups) => {
                for (value, group) in values.iter().zip(*groups) {
                    let total = &mut totals[*group as usize];
                    *total = total.wrapping_add(*value);
                }
            }
        }
    }

    /// Adds the number of each group's rows to `totals`.
    pub(crate) fn count(&self, rows: usize, totals: &mut [i64]) {
        match self {
            Self::Whole => totals[0] += rows as i64,
            Self::Few(groups) => {
                let mut lanes = [[0u32; FEW]; LANES];
                let (blocks, last) = groups.as_chunks::<LANES>();
                for groups in blocks {
                    for lane in 0..LANES {
                        lanes[lane][groups[lane] as usize] += 1;
                    }
                }
                for group in last {
                    lanes[0][*group as usize] += 1;
                }
                for lane in &lanes {
                    totals.iter_mut().zip(lane).for_each(|(total, count)| *total += i64::from(*count));
                }
            }
            Self::Many(groups) => groups.iter().for_each(|group| totals[*group as usize] += 1),
        }
    }

    /// Adds the number of each group's rows that `valid` excludes to `totals`.
    pub(crate) fn count_nulls(&self, valid: &NullBuffer, totals: &mut [i64]) {
        match self {
            Self::Whole => totals[0] += valid.null_count() as i64,
            Self::Few(_) | Self::Many(_) => {
                self.for_each(valid, |group, valid| totals[group] += i64::from(!valid));
            }
        }
    }
}
