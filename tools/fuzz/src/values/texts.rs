//! Formats of texts: records of COPY, and the shapes of statements.

use saki_sql::{CsvOptions, LineOptions, RecordFormat, RecordReader, RecordWriter, Shape};

use crate::input::Input;

/// Fields of a record; `None` is NULL.
type Record = Vec<Option<String>>;

/// A format, the size of pieces, and a file. However it is cut, the records are the same; and written, they are read
/// again.
pub fn records(bytes: &[u8]) {
    let mut input = Input(bytes);
    let format = format(&mut input);
    let piece = usize::from(input.byte()) + 1;
    let whole = read(&format, input.0, input.0.len().max(1));
    assert_eq!(read(&format, input.0, piece), whole, "records do not depend on how their bytes come");
    let Some(records) = whole else { return };
    let (mut writer, mut out) = (RecordWriter::new(format.clone()), Vec::new());
    if format.header() {
        writer.header(["a", "b"].into_iter(), &mut out).expect("memory takes all");
    }
    for record in &records {
        for field in record {
            writer.field(field.as_deref().map(str::as_bytes), &mut out).expect("memory takes all");
        }
        writer.end_record(&mut out).expect("memory takes all");
    }
    assert_eq!(read(&format, &out, piece), Some(records), "what is written is read again");
}

pub fn records_seeds() -> Vec<Vec<u8>> {
    [
        &b"\0\x03a,\"b\"\"c\",\n\"line\nend\",d\r\n"[..],
        b"\x01\x021\ta\\tb\n2\t\\N\n\\.\n3\n",
        b"\x03\x01a\tb\n\\x41\t\\101\\\n\n",
        b"\x02\x05a,b\n1,\n",
    ]
    .map(<[u8]>::to_vec)
    .into()
}

/// A statement's text: its shape has a place for each literal, and the same shape.
pub fn shape(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for shape in [Shape::of(text), Shape::of_condition(text), Shape::of_keys(text)].into_iter().flatten() {
        assert_eq!(shape.kinds.len(), shape.literals.len());
        assert!(!shape.literals.is_empty(), "a text without literals is its own shape");
        for number in 1..=shape.literals.len() {
            assert!(shape.text.contains(&format!("${number}")), "each literal has its place");
        }
        assert_eq!(Shape::of(&shape.text), None, "what has parameters has no shape");
    }
}

pub fn shape_seeds() -> Vec<Vec<u8>> {
    [
        "SELECT a FROM t WHERE b = 5 AND c IN ('x', 'it''s') LIMIT 3;",
        "UPDATE t SET a = a + -5, \"b c\" = 3000000000 WHERE d <= 1.5e3",
        "SELECT E'a\\n', 'é' -- one",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

fn format(input: &mut Input<'_>) -> RecordFormat {
    let choice = input.byte();
    let header = choice & 2 != 0;
    match choice & 1 {
        0 => RecordFormat::Csv(CsvOptions { header, ..CsvOptions::default() }),
        _ => RecordFormat::Lines(LineOptions { header, ..LineOptions::default() }),
    }
}

/// The records of a file that comes in pieces; `None`: it is refused, or has fields that are no text.
fn read(format: &RecordFormat, bytes: &[u8], piece: usize) -> Option<Vec<Record>> {
    let mut reader = RecordReader::new(format.clone()).with_end_mark();
    let mut records = Vec::new();
    let record = |reader: &RecordReader| -> Option<Record> {
        (0..reader.fields()).map(|field| Some(reader.field(field).ok()?.map(str::to_owned))).collect()
    };
    for mut piece in bytes.chunks(piece) {
        while reader.read(&mut piece).ok()? {
            records.push(record(&reader)?);
        }
    }
    if reader.finish().ok()? {
        records.push(record(&reader)?);
    }
    Some(records)
}
