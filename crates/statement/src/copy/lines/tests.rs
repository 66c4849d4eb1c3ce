use super::*;

/// Records of a text that comes in pieces of so many bytes.
fn records(text: &[u8], piece: usize, options: &LineOptions) -> Vec<Vec<Option<String>>> {
    let mut reader = LineReader::new(options.clone());
    let mut found = Vec::new();
    let record = |reader: &LineReader| {
        (0..reader.fields()).map(|index| reader.field(index).unwrap().map(str::to_owned)).collect::<Vec<_>>()
    };
    for piece in text.chunks(piece) {
        let mut rest = piece;
        while reader.read(&mut rest).unwrap() {
            found.push(record(&reader));
        }
    }
    if reader.finish() {
        found.push(record(&reader));
    }
    found
}

fn shown(records: &[Vec<Option<String>>]) -> String {
    let field = |field: &Option<String>| field.clone().unwrap_or_else(|| "NULL".to_owned());
    let record = |record: &Vec<Option<String>>| record.iter().map(field).collect::<Vec<_>>().join("|");
    records.iter().map(record).collect::<Vec<_>>().join(" / ")
}

#[test]
fn lines_are_cut_wherever_their_bytes_are() {
    let plain = LineOptions::default();
    let header = LineOptions { header: true, ..LineOptions::default() };
    let other = LineOptions { delimiter: b'|', null: String::new(), ..LineOptions::default() };
    for (text, options, expected) in [
        ("1\ta\n2\t\\N\n", &plain, "1|a / 2|NULL"),
        ("1\t\n", &plain, "1|"),
        ("a\\tb\\\\\tc\\x41\\101\\n\n", &plain, "a\tb\\|cAA\n"),
        ("a\\\nb\n", &plain, "a\nb"),
        ("1\r\n2\r\n", &plain, "1 / 2"),
        ("1\n\\.\n2\n", &plain, "1"),
        ("last", &plain, "last"),
        ("\n", &plain, ""),
        ("a\tb\n1\t2\n", &header, "1|2"),
        ("1||x\\|y\n", &other, "1|NULL|x|y"),
    ] {
        for piece in 1..=text.len() {
            assert_eq!(shown(&records(text.as_bytes(), piece, options)), expected, "{text:?} in pieces of {piece}");
        }
    }
    assert_eq!(records(b"\n", 1, &plain).len(), 1, "an empty line is an empty field");
}

#[test]
fn what_is_written_is_read_again() {
    let options = LineOptions::default();
    let rows: [Vec<Option<&str>>; 3] = [
        vec![Some("a\tb"), None, Some("")],
        vec![Some("\\N"), Some("\\."), Some("x\ny\r\u{8}\u{b}\u{c}")],
        vec![Some("é"), Some("\\"), None],
    ];
    let (mut writer, mut out) = (LineWriter::new(options.clone()), Vec::new());
    for row in &rows {
        row.iter().for_each(|field| writer.field(field.map(str::as_bytes), &mut out).unwrap());
        writer.end_record(&mut out).unwrap();
    }
    let expected: Vec<Vec<Option<String>>> =
        rows.iter().map(|row| row.iter().map(|field| field.map(str::to_owned)).collect()).collect();
    assert_eq!(records(&out, 3, &options), expected);
}

#[test]
fn fields_that_are_no_text_are_told_by_their_place() {
    let mut reader = LineReader::new(LineOptions::default());
    assert!(reader.read(&mut &b"a\n"[..]).unwrap());
    assert!(reader.read(&mut &b"b\t\xff\n"[..]).unwrap());
    assert_eq!(reader.field(1).unwrap_err().to_string(), "line 2: field 2 is not UTF-8");
}
