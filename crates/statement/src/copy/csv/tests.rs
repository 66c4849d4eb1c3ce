use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

type Record = Vec<Option<String>>;

/// All records of bytes that come in pieces of `piece` bytes.
fn read(mut reader: CsvReader, bytes: &[u8], piece: usize) -> Result<Vec<(u64, Record)>, CsvError> {
    fn take(reader: &CsvReader) -> Result<(u64, Record), CsvError> {
        let fields = (0..reader.fields()).map(|at| Ok(reader.field(at)?.map(str::to_owned)));
        Ok((reader.record_line(), fields.collect::<Result<_, CsvError>>()?))
    }
    let mut records = Vec::new();
    for mut piece in bytes.chunks(piece) {
        while reader.read(&mut piece)? {
            records.push(take(&reader)?);
        }
    }
    if reader.finish()? {
        records.push(take(&reader)?);
    }
    Ok(records)
}

fn records_of(options: CsvOptions, text: &str) -> Vec<Record> {
    let whole = read(CsvReader::new(options.clone()), text.as_bytes(), usize::MAX).unwrap();
    let by_bytes = read(CsvReader::new(options), text.as_bytes(), 1).unwrap();
    assert_eq!(whole, by_bytes, "where pieces are cut makes a difference: {text:?}");
    whole.into_iter().map(|(_, record)| record).collect()
}

fn records(text: &str) -> Vec<Record> {
    records_of(CsvOptions::default(), text)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn quoted_and_unquoted_emptiness_differ() {
    assert_eq!(records("a,,\"\"\r\n"), [[some("a"), None, some("")]]);
    assert_eq!(records("\n"), [[None]]);
    assert_eq!(records("a,"), [[some("a"), None]]);
    assert!(records("").is_empty());
}

#[test]
fn quotes_hold_delimiters_line_ends_and_doubled_quotes() {
    assert_eq!(records("\"x,\r\ny\"\"z\",2\n3,4"), [[some("x,\r\ny\"z"), some("2")], [some("3"), some("4")]]);
}

#[test]
fn quotes_may_begin_and_end_within_a_field() {
    assert_eq!(records("a\"b,c\"d,e\n"), [[some("ab,cd"), some("e")]]);
}

#[test]
fn a_carriage_return_belongs_to_the_line_end_or_to_the_value() {
    assert_eq!(records("a\r\nb\rc\r\n\"d\"\r\n"), [[some("a")], [some("b\rc")], [some("d")]]);
}

#[test]
fn an_escape_that_is_no_quote_escapes_quotes_and_itself_only() {
    let options = CsvOptions { escape: b'\\', ..CsvOptions::default() };
    assert_eq!(
        records_of(options, r#""a\"b","c\\","d\e",f\g"#),
        [[some("a\"b"), some("c\\"), some("d\\e"), some("f\\g")]]
    );
}

#[test]
fn null_is_what_the_options_say_unless_it_is_quoted() {
    let options = CsvOptions { null: "NULL".into(), ..CsvOptions::default() };
    assert_eq!(records_of(options, "NULL,\"NULL\",\n"), [[None, some("NULL"), some("")]]);
}

#[test]
fn the_header_is_left_out_even_if_it_has_lines() {
    let options = CsvOptions { header: true, ..CsvOptions::default() };
    assert_eq!(records_of(options, "\"a\nb\",c\n1,2\n"), [[some("1"), some("2")]]);
}

#[test]
fn the_end_mark_ends_the_data_where_it_may() {
    let text = b"1\n\"\\.\"\n\\.\n2\n";
    let heard = read(CsvReader::new(CsvOptions::default()).with_end_mark(), text, 3).unwrap();
    assert_eq!(heard, [(1, vec![some("1")]), (2, vec![some("\\.")])]);
    assert_eq!(records("\\.\n2\n"), [[some("\\.")], [some("2")]]);
}

#[test]
fn records_know_the_line_on_which_they_begin() {
    let read = read(CsvReader::new(CsvOptions::default()), b"1\n\"2\n\n\"\n3", 2).unwrap();
    assert_eq!(read.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 5]);
}

#[test]
fn bad_input_is_named_with_its_line() {
    let error = |text: &[u8]| read(CsvReader::new(CsvOptions::default()), text, 4).unwrap_err();
    assert_eq!(error(b"1\n\"x\ny\n"), CsvError { line: 2, fault: CsvFault::UnterminatedQuote });
    assert_eq!(error(b"1\n2,\xff\n"), CsvError { line: 2, fault: CsvFault::NotUtf8 { field: 2 } });
    assert_eq!(error(b"1\n\"x\ny").to_string(), "line 2: unterminated CSV quoted field");
}

#[test]
fn a_record_that_never_ends_is_refused_before_it_fills_memory() {
    let mut reader = CsvReader::new(CsvOptions::default());
    let piece = vec![b'x'; 1 << 20];
    let outcome = std::iter::repeat_n((), 100).try_for_each(|()| reader.read(&mut piece.as_slice()).map(drop));
    assert_eq!(outcome, Err(CsvError { line: 1, fault: CsvFault::TooLong }));
}

#[test]
fn options_are_set_by_name_and_refused_otherwise() {
    let mut options = CsvOptions::default();
    options.set("QUOTE", "'").unwrap();
    assert_eq!((options.quote, options.escape), (b'\'', b'\''));
    assert!(options.set("delimiter", "::").is_err());
    assert!(options.set("colour", "red").is_err());
}

fn any_options() -> impl Strategy<Value = CsvOptions> {
    let options = |(delimiter, escape, null): (u8, u8, &str)| CsvOptions {
        header: false,
        delimiter,
        quote: b'"',
        escape,
        null: null.to_owned(),
    };
    let bytes = (prop::sample::select(&b",;|\t"[..]), prop::sample::select(&b"\"\\"[..]));
    (bytes, prop::sample::select(&["", "NULL", "\\N"][..])).prop_map(move |((d, e), null)| options((d, e, null)))
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_however_it_is_cut(
        options in any_options(),
        rows in vec(vec(option::of("[a-c,;|\t\r\n\"\\\\.NUL]{0,6}|\\PC{0,3}"), 1..5), 0..8),
        piece in 1_usize..9,
    ) {
        let (mut writer, mut bytes) = (CsvWriter::new(options.clone()), Vec::new());
        for row in &rows {
            for value in row {
                writer.field(value.as_deref().map(str::as_bytes), &mut bytes).unwrap();
            }
            writer.end_record(&mut bytes).unwrap();
        }
        let back = read(CsvReader::new(options).with_end_mark(), &bytes, piece).unwrap();
        prop_assert_eq!(back.into_iter().map(|(_, record)| record).collect::<Vec<_>>(), rows);
    }
}

/// CSV as its documentation has it, read character by character: slow, and short enough to be seen to be right.
fn by_the_book(options: &CsvOptions, text: &str) -> Option<Vec<Record>> {
    let (delimiter, quote, escape) = (options.delimiter as char, options.quote as char, options.escape as char);
    let (mut records, mut fields, mut field, mut quoted) = (Vec::new(), Record::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    let take = |fields: &mut Record, field: &mut String, quoted: &mut bool| {
        let value = std::mem::take(field);
        fields.push((std::mem::take(quoted) || value != options.null).then_some(value));
    };
    while characters.peek().is_some() {
        loop {
            match characters.next() {
                Some(character) if character == quote => {
                    quoted = true;
                    loop {
                        let character = characters.next()?;
                        let next = characters.peek().copied();
                        if character == escape && (next == Some(quote) || next == Some(escape)) {
                            field.push(characters.next()?);
                        } else if character == quote {
                            break;
                        } else {
                            field.push(character);
                        }
                    }
                }
                Some(character) if character == delimiter => take(&mut fields, &mut field, &mut quoted),
                Some('\r') if characters.peek() == Some(&'\n') => {}
                Some('\r') if characters.peek().is_none() => field.push('\r'),
                None | Some('\n') => break,
                Some(other) => field.push(other),
            }
        }
        take(&mut fields, &mut field, &mut quoted);
        records.push(std::mem::take(&mut fields));
    }
    Some(records)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_as_the_book_says(
        options in any_options(),
        text in "[ab,;|\t\r\n\"\\\\N]{0,40}",
        piece in 1_usize..9,
    ) {
        // A carriage return that ends the data is read as part of a line end that did not come.
        prop_assume!(!text.ends_with('\r'));
        let found = read(CsvReader::new(options.clone()), text.as_bytes(), piece);
        match by_the_book(&options, &text) {
            Some(expected) => {
                let found = found.unwrap().into_iter().map(|(_, record)| record).collect::<Vec<_>>();
                prop_assert_eq!(found, expected);
            }
            None => prop_assert_eq!(found.unwrap_err().fault, CsvFault::UnterminatedQuote),
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_alike_however_they_are_cut(
        bytes in vec(prop_oneof![3 => prop::sample::select(&b"a,\"\n\r\\"[..]), 1 => any::<u8>()], 0..60),
        piece in 1_usize..9,
    ) {
        let reader = || CsvReader::new(CsvOptions::default()).with_end_mark();
        let whole = read(reader(), &bytes, usize::MAX);
        prop_assert_eq!(&whole, &read(reader(), &bytes, piece));
        let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        match whole {
            Ok(records) => prop_assert!(records.is_sorted_by(|a, b| a.0 < b.0), "each record begins its own line"),
            Err(error) => prop_assert!((1..=lines).contains(&error.line), "{error} of {lines} lines"),
        }
    }

    #[test]
    fn what_is_written_with_a_header_is_read_without_it(rows in vec(vec("\\PC{0,5}", 2), 0..5)) {
        let options = CsvOptions { header: true, ..CsvOptions::default() };
        let (mut writer, mut bytes) = (CsvWriter::new(options.clone()), Vec::new());
        writer.header(["a,b", "c\n\"d\""].into_iter(), &mut bytes).unwrap();
        for row in &rows {
            row.iter().for_each(|value| writer.field(Some(value.as_bytes()), &mut bytes).unwrap());
            writer.end_record(&mut bytes).unwrap();
        }
        let back = read(CsvReader::new(options), &bytes, 3).unwrap();
        let back: Vec<Vec<String>> = back.into_iter().map(|(_, row)| row.into_iter().flatten().collect()).collect();
        prop_assert_eq!(back, rows);
    }
}

#[test]
fn a_writer_that_cannot_write_says_so() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = CsvWriter::new(CsvOptions::default());
    assert!(writer.field(Some(b"a"), &mut Full).is_err());
    assert!(writer.field(Some(b"\"quoted\""), &mut Full).is_err());
    assert!(writer.end_record(&mut Full).is_err());
}
