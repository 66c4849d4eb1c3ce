//! Comma-separated values (RFC 4180 with line feeds), as `COPY … WITH (FORMAT csv, HEADER)` reads them back.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::RowWriter;
use super::value::Cells;

pub struct CsvWriter {
    /// Until it is written.
    header: Option<Vec<String>>,
}

impl CsvWriter {
    pub fn new(schema: &SchemaRef) -> Self {
        Self { header: Some(schema.fields().iter().map(|field| field.name().clone()).collect()) }
    }

    fn write_header(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(names) = self.header.take() else { return Ok(()) };
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        writeln!(out, "{}", names.join(","))
    }
}

impl RowWriter for CsvWriter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        self.write_header(out)?;
        let columns: Vec<Cells> = batch.columns().iter().map(Cells::new).collect();
        let (mut line, mut text) = (String::new(), String::new());
        for row in 0..batch.num_rows() {
            line.clear();
            for (position, cells) in columns.iter().enumerate() {
                if position > 0 {
                    line.push(',');
                }
                text.clear();
                if cells.append(row, &mut text) {
                    line += &quoted(&text);
                }
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write_header(out)
    }
}

/// Quotes where a reader would go wrong; an empty text too, which without quotes is NULL.
fn quoted(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    use super::*;

    #[test]
    fn null_and_empty_differ_and_quotes_are_doubled() {
        let words: ArrayRef = Arc::new(StringArray::from(vec![Some("a,b"), None, Some(""), Some("say \"x\"")]));
        let batch = RecordBatch::try_from_iter([("w", words.clone()), ("v", words)]).unwrap();
        let mut out = Vec::new();
        let mut writer = CsvWriter::new(&batch.schema());
        writer.write(&mut out, &batch).unwrap();
        writer.finish(&mut out).unwrap();
        let expected = "w,v\n\"a,b\",\"a,b\"\n,\n\"\",\"\"\n\"say \"\"x\"\"\",\"say \"\"x\"\"\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
