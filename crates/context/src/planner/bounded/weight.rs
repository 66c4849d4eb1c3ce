//! How many bytes the values of a call take at most, from its arguments.

use std::collections::HashMap;
use std::sync::LazyLock;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, Int64Type, IntervalMonthDayNanoType, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::ScalarValue;

use self::Bound::{AtMost, Exactly, Times};
use super::concat::CONCAT;

/// Bytes of values of a call: of the largest, and of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weight {
    pub largest: usize,
    pub all: usize,
}

/// What is known of the size of a function's values.
#[derive(Debug)]
pub enum Bound {
    /// All arguments together, so many times.
    Times(usize),
    Exactly(fn(&Row<'_>) -> usize),
    /// What it takes at most.
    AtMost(fn(&Row<'_>) -> usize),
}

/// Results that are not worth a reservation.
pub const SMALL_BYTES: usize = 1 << 20;
/// Bytes of a letter at most.
const LETTER_BYTES: usize = 4;
/// Bytes of a number as text at most, and of what a list holds of it.
const NUMBER_BYTES: usize = 48;
/// Values of a series at most: more are refused.
const SERIES_MAX: usize = 10_000_000;
/// Elements of an array at most: more are refused.
const ELEMENTS_MAX: usize = 134_217_727;

/// By the planner's names.
const BOUNDS: [(&str, Bound); 66] = [
    (CONCAT, Times(1)),
    ("array_append", Times(1)),
    ("array_concat", Times(1)),
    ("array_prepend", Times(1)),
    ("array_replace", AtMost(of_array_replace)),
    ("array_replace_all", AtMost(of_array_replace)),
    ("array_to_string", AtMost(of_array_to_string)),
    ("concat", Times(1)),
    ("concat_ws", Exactly(of_concat_ws)),
    // To hexadecimal digits two, as octal escapes four.
    ("encode", Times(4)),
    // A long chain of operators.
    ("fold_operators", Times(1)),
    ("format", AtMost(of_format)),
    // Some letters become three.
    ("initcap", Times(3)),
    // A letter of a text may take six, and a comma a blank.
    ("array_to_json", Times(6)),
    ("as_jsonb", Times(2)),
    ("json_build_array", Times(6)),
    ("json_build_object", Times(6)),
    ("json_each_keys", AtMost(of_json_list)),
    ("json_elements", AtMost(of_json_list)),
    ("json_elements_text", AtMost(of_json_list)),
    ("json_keys", AtMost(of_json_list)),
    ("json_object", Times(6)),
    ("json_of_items", Times(6)),
    ("json_of_pairs", Times(2)),
    ("json_pair", Times(6)),
    ("json_values", AtMost(of_json_list)),
    ("json_values_text", AtMost(of_json_list)),
    ("jsonb_build_array", Times(8)),
    ("jsonb_build_object", Times(8)),
    ("jsonb_concat", Times(1)),
    ("jsonb_each_keys", AtMost(of_json_list)),
    ("jsonb_elements", AtMost(of_json_list)),
    ("jsonb_elements_text", AtMost(of_json_list)),
    ("jsonb_insert", Times(2)),
    ("jsonb_keys", AtMost(of_json_list)),
    ("jsonb_object", Times(6)),
    ("jsonb_of_items", Times(8)),
    ("jsonb_of_pairs", Times(4)),
    ("jsonb_pretty", AtMost(of_json_lines)),
    ("jsonb_set", Times(2)),
    ("jsonb_values", AtMost(of_json_list)),
    ("jsonb_values_text", AtMost(of_json_list)),
    ("lower", Times(3)),
    ("lpad", AtMost(of_pad)),
    ("make_array", Times(1)),
    // U+FDFA, of three bytes, is eighteen letters.
    ("normalize", Times(11)),
    ("overlay", Times(1)),
    ("pg_array_fill", AtMost(of_fill)),
    ("pg_expand_array", AtMost(|row| row.leaves(0).saturating_mul(4 * size_of::<ScalarValue>()))),
    ("pg_matches", AtMost(of_matches)),
    ("pg_series", AtMost(of_series)),
    ("pg_subscripts", AtMost(|row| row.leaves(0).saturating_mul(2 * size_of::<ScalarValue>()))),
    ("quote_ident", Times(2)),
    ("quote_literal", Times(2)),
    ("quote_nullable", Times(2)),
    ("regexp_replace", AtMost(of_regexp_replace)),
    ("regexp_split_to_array", AtMost(|row| row.bytes(0).saturating_mul(1 + 2 * size_of::<usize>() + 8))),
    ("repeat", Exactly(|row| row.bytes(0).saturating_mul(row.count(1)))),
    ("replace", Exactly(of_replace)),
    ("rpad", AtMost(of_pad)),
    ("string_to_array", AtMost(of_string_to_array)),
    // A letter of a pattern stands for at most so many: MONTH, J, RN.
    ("to_char", AtMost(|row| row.bytes(1).saturating_mul(16))),
    ("to_json", Times(6)),
    ("to_jsonb", Times(8)),
    ("translate", AtMost(of_translate)),
    ("upper", Times(3)),
];

/// Each element is a text and a place in a list.
fn of_json_list(row: &Row<'_>) -> usize {
    const ELEMENT_BYTES: usize = 64;
    let elements = 1 + letters(row, b",");
    row.bytes(0).saturating_add(elements.saturating_mul(ELEMENT_BYTES))
}

/// Each value has a line, with four blanks for each level that it is in.
fn of_json_lines(row: &Row<'_>) -> usize {
    let (lines, levels) = (2 + 2 * letters(row, b",[{"), letters(row, b"[{").min(saki_base::json::DEPTH_MAX));
    row.bytes(0).saturating_add(lines.saturating_mul(4 * levels + 2))
}

/// How often letters stand in a row's text.
fn letters(row: &Row<'_>, of: &[u8]) -> usize {
    let bytes = match row.place(0) {
        Some((values, place)) if *values.data_type() == DataType::LargeBinary => values.as_binary::<i64>().value(place),
        _ => row.text(0).map_or(&[][..], str::as_bytes),
    };
    bytes.iter().filter(|byte| of.contains(byte)).count()
}

/// The bound of a function; `None` for one whose values are no larger than its arguments.
pub fn bound(function: &str) -> Option<&'static Bound> {
    static BY_NAME: LazyLock<HashMap<&str, &Bound>> =
        LazyLock::new(|| BOUNDS.iter().map(|(name, bound)| (*name, bound)).collect());
    BY_NAME.get(function).copied()
}

impl Bound {
    /// Whether values take what it says, and not less.
    pub fn is_exact(&self) -> bool {
        matches!(self, Times(1) | Exactly(_))
    }

    pub fn weigh(&self, args: &[ArrayRef], rows: usize) -> Weight {
        if let Times(times) = self {
            let all = args.iter().map(|values| all_bytes(values, rows)).fold(0, usize::saturating_add);
            let all = all.saturating_mul(*times);
            if all <= SMALL_BYTES {
                return Weight { largest: all, all };
            }
        }
        let nothing = Weight { largest: 0, all: 0 };
        (0..rows).map(|row| self.of_row(&Row { args, row })).fold(nothing, |weight, bytes| Weight {
            largest: weight.largest.max(bytes),
            all: weight.all.saturating_add(bytes),
        })
    }

    fn of_row(&self, row: &Row<'_>) -> usize {
        match self {
            Times(times) => row.sum().saturating_mul(*times),
            Exactly(of_row) | AtMost(of_row) => of_row(row),
        }
    }
}

/// Bytes of an argument in all rows, at most; quickly.
fn all_bytes(values: &ArrayRef, rows: usize) -> usize {
    let bytes = match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().value_data().len(),
        DataType::Binary => values.as_binary::<i32>().value_data().len(),
        _ => values.get_array_memory_size(),
    };
    // A constant stands for all of them.
    if values.len() == 1 { bytes.saturating_mul(rows.max(1)) } else { bytes }
}

/// The arguments of one row.
pub struct Row<'a> {
    args: &'a [ArrayRef],
    row: usize,
}

impl<'a> Row<'a> {
    /// An argument, and where in it the row's value lies, if it has one.
    fn place(&self, at: usize) -> Option<(&'a ArrayRef, usize)> {
        let values = self.args.get(at)?;
        let place = self.row.min(values.len().checked_sub(1)?);
        (!values.is_null(place)).then_some((values, place))
    }

    fn text(&self, at: usize) -> Option<&'a str> {
        let (texts, place) = self.place(at)?;
        match texts.data_type() {
            DataType::Utf8 => Some(texts.as_string::<i32>().value(place)),
            DataType::LargeUtf8 => Some(texts.as_string::<i64>().value(place)),
            DataType::Utf8View => Some(texts.as_string_view().value(place)),
            _ => None,
        }
    }

    fn list(&self, at: usize) -> Option<ArrayRef> {
        let (lists, place) = self.place(at)?;
        match lists.data_type() {
            DataType::List(_) => Some(lists.as_list::<i32>().value(place)),
            DataType::LargeList(_) => Some(lists.as_list::<i64>().value(place)),
            _ => None,
        }
    }

    /// Bytes of an argument's value.
    fn bytes(&self, at: usize) -> usize {
        if let Some(text) = self.text(at) {
            return text.len();
        }
        let Some((values, place)) = self.place(at) else { return 0 };
        match values.data_type() {
            DataType::Binary => values.as_binary::<i32>().value(place).len(),
            DataType::LargeBinary => values.as_binary::<i64>().value(place).len(),
            DataType::BinaryView => values.as_binary_view().value(place).len(),
            _ => self.list(at).map_or(NUMBER_BYTES, |values| slice_bytes(&values)),
        }
    }

    fn sum(&self) -> usize {
        (0..self.args.len()).map(|at| self.bytes(at)).fold(0, usize::saturating_add)
    }

    /// The largest argument from one on.
    fn largest(&self, from: usize) -> usize {
        (from..self.args.len()).map(|at| self.bytes(at)).max().unwrap_or(0)
    }

    /// Values of a list, of those within it too.
    fn leaves(&self, at: usize) -> usize {
        self.list(at).map_or(0, |values| leaves(&values))
    }

    /// A whole number, the digits of a decimal, or microseconds.
    fn number(&self, at: usize) -> Option<i128> {
        let (values, place) = self.place(at)?;
        Some(match values.data_type() {
            DataType::Int32 => values.as_primitive::<Int32Type>().value(place).into(),
            DataType::Int64 => values.as_primitive::<Int64Type>().value(place).into(),
            DataType::Decimal128(..) => values.as_primitive::<Decimal128Type>().value(place),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                values.as_primitive::<TimestampMicrosecondType>().value(place).into()
            }
            DataType::Interval(_) => {
                let interval = values.as_primitive_opt::<IntervalMonthDayNanoType>()?.value(place);
                // No month is shorter, and no day.
                let hours = i128::from(interval.months) * 28 * 23 + i128::from(interval.days) * 23;
                hours * 3_600_000_000 + i128::from(interval.nanoseconds / 1_000)
            }
            _ => return None,
        })
    }

    fn count(&self, at: usize) -> usize {
        self.number(at).map_or(0, |count| usize::try_from(count.max(0)).unwrap_or(usize::MAX))
    }
}

fn slice_bytes(values: &ArrayRef) -> usize {
    values.to_data().get_slice_memory_size().unwrap_or_else(|_| values.get_array_memory_size())
}

fn leaves(values: &ArrayRef) -> usize {
    match values.data_type() {
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            let ends = lists.offsets().first().zip(lists.offsets().last()).map(|(a, b)| (*a as usize, *b as usize));
            ends.map_or(0, |(start, end)| leaves(&lists.values().slice(start, end - start)))
        }
        _ => values.len(),
    }
}

fn of_pad(row: &Row<'_>) -> usize {
    // What it is filled up with, and the text itself, which may be cut.
    let letter = |at: usize| row.text(at).map_or(1, |text| if text.is_ascii() { 1 } else { LETTER_BYTES });
    row.count(1).saturating_mul(letter(0).max(letter(2)))
}

/// As if the text were nothing but what is replaced; only if that is much, what is replaced is counted.
fn of_replace(row: &Row<'_>) -> usize {
    let (text, from, to) = (row.bytes(0), row.bytes(1), row.bytes(2));
    if from == 0 || to <= from {
        return text;
    }
    let at_most = (text / from).saturating_mul(to).saturating_add(text);
    if at_most <= SMALL_BYTES {
        return at_most;
    }
    let (Some(within), Some(what)) = (row.text(0), row.text(1)) else { return at_most };
    text.saturating_add(within.matches(what).count().saturating_mul(to - from))
}

/// As many values as the lengths of the dimensions come to.
fn of_fill(row: &Row<'_>) -> usize {
    let values = (1..row.args.len()).map(|at| row.count(at)).fold(1, usize::saturating_mul);
    // More are refused.
    values.min(ELEMENTS_MAX).saturating_mul(row.bytes(0).saturating_add(size_of::<i32>()))
}

/// A match may be nothing, and then there is one at each letter; the replacement may name what was matched.
fn of_regexp_replace(row: &Row<'_>) -> usize {
    let Some(text) = row.text(0) else { return 0 };
    // By an option, or because the match that is asked for is number 0.
    let is_global = row.text(3).is_some_and(|flags| flags.contains('g')) || row.number(4) == Some(0);
    let matches = if is_global { text.chars().count() + 1 } else { 1 };
    let names = row.text(2).map_or(0, |to| to.matches(['\\', '$']).count());
    let named = names.saturating_mul(text.len());
    matches.saturating_mul(row.bytes(2)).saturating_add(named).saturating_add(text.len())
}

fn of_matches(row: &Row<'_>) -> usize {
    let Some(text) = row.text(0) else { return 0 };
    let is_global = row.text(2).is_some_and(|flags| flags.contains('g'));
    let matches = if is_global { text.chars().count() + 1 } else { 1 };
    let groups = row.text(1).map_or(1, |pattern| pattern.matches('(').count().max(1));
    matches
        .saturating_mul(8)
        .saturating_add(text.len())
        .saturating_mul(groups)
        .saturating_add(matches.saturating_mul(8))
}

fn of_translate(row: &Row<'_>) -> usize {
    let letter = row.text(2).and_then(|to| to.chars().map(char::len_utf8).max()).unwrap_or(1);
    row.bytes(0).saturating_mul(letter)
}

fn of_concat_ws(row: &Row<'_>) -> usize {
    let between = row.args.len().saturating_sub(2);
    row.sum().saturating_add(between.saturating_mul(row.bytes(0)))
}

/// Widths are the numbers that the pattern has; each `%` may be the largest argument, quoted.
fn of_format(row: &Row<'_>) -> usize {
    let Some(pattern) = row.text(0) else { return 0 };
    let parts = pattern.matches('%').count();
    let digits = pattern.split(|letter: char| !letter.is_ascii_digit());
    let widths = digits.filter_map(|digits| digits.parse::<usize>().ok()).fold(0, usize::saturating_add);
    let written = parts.saturating_mul(row.largest(1).saturating_mul(2));
    pattern.len().saturating_add(widths).saturating_add(written)
}

fn of_array_to_string(row: &Row<'_>) -> usize {
    let Some(values) = row.list(0) else { return 0 };
    let each = row.bytes(1).saturating_add(row.bytes(2)).saturating_add(NUMBER_BYTES);
    leaves(&values).saturating_mul(each).saturating_add(slice_bytes(&values))
}

fn of_array_replace(row: &Row<'_>) -> usize {
    let Some(values) = row.list(0) else { return 0 };
    values.len().saturating_mul(row.bytes(2)).saturating_add(slice_bytes(&values))
}

/// Without a delimiter each letter is an element.
fn of_string_to_array(row: &Row<'_>) -> usize {
    /// An offset, and what a builder has to spare.
    const ELEMENT_BYTES: usize = 8;
    let (text, delimiter) = (row.bytes(0), row.bytes(1));
    let elements = text / delimiter.max(1) + 1;
    let or_null = ELEMENT_BYTES.saturating_mul(elements);
    text.saturating_add(or_null)
}

/// The values one by one, before they are a list.
fn of_series(row: &Row<'_>) -> usize {
    let (Some(first), Some(last)) = (row.number(0), row.number(1)) else { return 0 };
    let unit = match row.args[0].data_type() {
        DataType::Decimal128(_, scale) => 10_i128.checked_pow(u32::try_from(*scale).unwrap_or(0)).unwrap_or(1),
        _ => 1,
    };
    let step = row.number(2).unwrap_or(unit);
    let span = last.saturating_sub(first);
    if step == 0 || (span != 0 && (span > 0) != (step > 0)) {
        return 0;
    }
    let steps = usize::try_from(span.unsigned_abs() / step.unsigned_abs()).unwrap_or(usize::MAX);
    steps.saturating_add(1).min(SERIES_MAX).saturating_mul(size_of::<ScalarValue>() + size_of::<i64>())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::{Int64Array, StringArray, StringViewArray};

    use super::*;

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    fn text(value: &str) -> ArrayRef {
        texts(&[Some(value)])
    }

    fn numbers(values: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn number(value: i64) -> ArrayRef {
        numbers(&[Some(value)])
    }

    fn weight(function: &str, args: &[ArrayRef], rows: usize) -> (usize, usize) {
        let Weight { largest, all } = bound(function).unwrap().weigh(args, rows);
        (largest, all)
    }

    #[test]
    fn a_constant_weighs_as_much_as_its_value_in_every_row_and_is_held_once() {
        let spread = texts(&[Some("abc"); 4]);
        let counts = numbers(&[Some(2), None, Some(-1), Some(5)]);
        assert_eq!(weight("repeat", &[text("abc"), Arc::clone(&counts)], 4), (15, 21));
        assert_eq!(weight("repeat", &[spread, counts], 4), (15, 21));
    }

    #[test]
    fn what_is_replaced_is_counted_where_it_may_be_much() {
        let long = "ab".repeat(SMALL_BYTES);
        let rows = texts(&[Some(&long), Some("b"), None]);
        let all = 4 * SMALL_BYTES + 4;
        assert_eq!(weight("replace", &[rows, text("b"), text("xyz")], 3), (4 * SMALL_BYTES, all));
    }

    #[test]
    fn texts_are_read_in_each_of_their_forms_and_no_rows_are_nothing() {
        let bytes = |values: ArrayRef, row| Row { args: &[values], row }.bytes(0);
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![Some("four"), None]));
        assert_eq!((bytes(Arc::clone(&views), 0), bytes(views, 1)), (4, 0));
        assert_eq!(bytes(ScalarValue::LargeUtf8(Some("xy".into())).to_array().unwrap(), 7), 2);
        assert_eq!((bytes(texts(&[]), 0), bytes(numbers(&[None]), 0)), (0, 0));
    }

    #[test]
    fn letters_are_counted_as_bytes() {
        assert_eq!(weight("lpad", &[text(""), number(10), text("x")], 1), (10, 10));
        assert_eq!(weight("rpad", &[text(""), number(10), text("ä")], 1), (40, 40));
        assert_eq!(weight("lpad", &[text("ä"), number(10)], 1), (40, 40));
        assert_eq!(weight("translate", &[text("aaa"), text("a"), text("ü")], 1), (6, 6));
    }

    #[test]
    fn what_is_said_many_times_is_weighed_as_often() {
        let long = "x".repeat(SMALL_BYTES);
        assert_eq!(weight("concat", &[text(&long), text(&long)], 3), (2 * SMALL_BYTES, 6 * SMALL_BYTES));
        assert_eq!(weight("concat_ws", &[text("--"), text("a"), text("b"), text("c")], 1), (9, 9));
        let (format, _) = weight("format", &[text("%1$1000s%1$s"), text(&long)], 1);
        assert!((2 * SMALL_BYTES..5 * SMALL_BYTES).contains(&format), "{format}");
        let (replaced, _) = weight("regexp_replace", &[text(&long), text("x"), text("1234"), text("g")], 1);
        assert!((4 * SMALL_BYTES..6 * SMALL_BYTES).contains(&replaced), "{replaced}");
        assert!(weight("regexp_replace", &[text(&long), text("x"), text("1234")], 1).0 < 2 * SMALL_BYTES);
        let (replaced, _) = weight("regexp_replace", &[text(&long), text("x"), text("1234"), number(1), number(0)], 1);
        assert!(replaced > 4 * SMALL_BYTES, "{replaced}");
        assert!(weight("to_char", &[number(1), text("MONTH")], 1).0 >= 9);
    }

    #[test]
    fn lists_are_weighed_by_their_elements() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value((0..1000).map(|_| Some("a")));
        let lists: ArrayRef = Arc::new(lists.finish());
        let long = "x".repeat(SMALL_BYTES);
        for (function, args) in [
            ("array_to_string", vec![Arc::clone(&lists), text(&long)]),
            ("array_replace_all", vec![Arc::clone(&lists), text("a"), text(&long)]),
        ] {
            let (bytes, _) = weight(function, &args, 1);
            assert!((1000 * SMALL_BYTES..1001 * SMALL_BYTES).contains(&bytes), "{function}: {bytes}");
        }
        assert_eq!(weight("pg_array_fill", &[text("abcd"), number(1000), number(2000)], 1).0, 16_000_000);
        assert!(weight("array_concat", &[Arc::clone(&lists), lists], 1).0 >= 2000);
        assert!(weight("string_to_array", &[text("a,b,c"), text(",")], 1).0 >= 5 + 3 * 4);
    }

    #[test]
    fn series_are_weighed_by_how_many_values_they_have() {
        let each = size_of::<ScalarValue>() + size_of::<i64>();
        let of = |first, last, step| weight("pg_series", &[number(first), number(last), number(step)], 1).0 / each;
        assert_eq!((of(1, 1000, 1), of(1000, 1, -3), of(1, 1000, -1), of(5, 5, 1)), (1000, 334, 0, 1));
        assert_eq!((of(i64::MIN, i64::MAX, 1), of(1, 2, 0)), (SERIES_MAX, 0));
        assert_eq!(weight("pg_series", &[number(1), numbers(&[Some(3), None])], 2), (3 * each, 3 * each));
    }
}
