//! Tables for people, laid out as psql does.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use unicode_width::UnicodeWidthStr;

use super::RowWriter;
use super::value::Cells;

/// Rows that set the width of columns: a longer result goes on with their widths, so that memory stays bounded.
const ROWS_MEASURED: usize = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    Left,
    Right,
}

/// A table that is written at once.
pub struct Grid {
    titles: Vec<String>,
    aligns: Vec<Align>,
    widths: Vec<usize>,
    rows: Vec<Vec<String>>,
    titled: bool,
}

impl Grid {
    pub fn new(columns: impl IntoIterator<Item = (impl Into<String>, Align)>) -> Self {
        let (titles, aligns): (Vec<String>, Vec<Align>) =
            columns.into_iter().map(|(title, align)| (title.into(), align)).unzip();
        let widths = titles.iter().map(|title| title.width()).collect();
        Self { titles, aligns, widths, rows: Vec::new(), titled: false }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.lines().map(UnicodeWidthStr::width).max().unwrap_or(0));
        }
        self.rows.push(cells);
    }

    /// Writes what has gathered, the titles before the first row.
    pub fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.titled {
            self.titled = true;
            let titles: Vec<String> =
                self.titles.iter().zip(&self.widths).map(|(title, width)| centred(title, *width)).collect();
            writeln!(out, " {}", titles.join(" | ").trim_end())?;
            let rules: Vec<String> = self.widths.iter().map(|width| "-".repeat(width + 2)).collect();
            writeln!(out, "{}", rules.join("+"))?;
        }
        for row in std::mem::take(&mut self.rows) {
            self.write_row(out, &row)?;
        }
        Ok(())
    }

    /// A row takes as many lines as its tallest cell; `+` marks a cell that goes on.
    fn write_row(&self, out: &mut dyn Write, row: &[String]) -> io::Result<()> {
        let lines: Vec<Vec<&str>> = row.iter().map(|cell| cell.split('\n').collect()).collect();
        let height = lines.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let mut text = String::new();
            for (column, cell) in lines.iter().enumerate() {
                let part = cell.get(line).copied().unwrap_or("").trim_end_matches('\r');
                let room = self.widths[column].saturating_sub(part.width());
                let (before, after) = if self.aligns[column] == Align::Right { (room, 0) } else { (0, room) };
                let more = if line + 1 < cell.len() { '+' } else { ' ' };
                let bar = if column > 0 { "|" } else { "" };
                text += &format!("{bar} {:before$}{part}{:after$}{more}", "", "");
            }
            writeln!(out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

fn centred(text: &str, width: usize) -> String {
    let room = width.saturating_sub(text.width());
    format!("{:before$}{text}{:after$}", "", "", before = room / 2, after = room - room / 2)
}

fn alignment(data_type: &DataType) -> Align {
    if data_type.is_numeric() { Align::Right } else { Align::Left }
}

/// "(n rows)"
fn count(rows: u64) -> String {
    if rows == 1 { "(1 row)".into() } else { format!("({rows} rows)") }
}

/// One line per row.
pub struct TableWriter {
    grid: Grid,
    null: String,
    rows: u64,
}

impl TableWriter {
    pub fn new(schema: &SchemaRef, null: &str) -> Self {
        let columns = schema.fields().iter().map(|field| (field.name().clone(), alignment(field.data_type())));
        Self { grid: Grid::new(columns), null: null.to_owned(), rows: 0 }
    }
}

impl RowWriter for TableWriter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let columns: Vec<Cells> = batch.columns().iter().map(Cells::new).collect();
        for row in 0..batch.num_rows() {
            self.grid.row(columns.iter().map(|cells| {
                let mut text = String::new();
                if cells.append(row, &mut text) { text } else { self.null.clone() }
            }));
        }
        self.rows += batch.num_rows() as u64;
        if self.grid.rows.len() >= ROWS_MEASURED { self.grid.write(out) } else { Ok(()) }
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.grid.write(out)?;
        writeln!(out, "{}\n", count(self.rows))
    }
}

/// One line per value, under a heading per row.
pub struct ExpandedWriter {
    names: Vec<String>,
    null: String,
    rows: u64,
}

impl ExpandedWriter {
    pub fn new(schema: &SchemaRef, null: &str) -> Self {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        Self { names, null: null.to_owned(), rows: 0 }
    }
}

impl RowWriter for ExpandedWriter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let columns: Vec<Cells> = batch.columns().iter().map(Cells::new).collect();
        let width = self.names.iter().map(|name| name.width()).max().unwrap_or(0);
        for row in 0..batch.num_rows() {
            self.rows += 1;
            let heading = format!("-[ RECORD {} ]", self.rows);
            writeln!(out, "{heading}{}", "-".repeat((width + 20).saturating_sub(heading.len())))?;
            for (name, cells) in self.names.iter().zip(&columns) {
                let mut text = String::new();
                if !cells.append(row, &mut text) {
                    text.clone_from(&self.null);
                }
                let room = width - name.width();
                let text = text.replace('\n', &format!("\n{:width$} | ", ""));
                writeln!(out, "{}", format!("{name}{:room$} | {text}", "").trim_end())?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}\n", count(self.rows))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, StringArray};

    use super::*;

    fn batch() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(-12345)]));
        let words: ArrayRef = Arc::new(StringArray::from(vec![Some("先駆け"), Some("two\nlines"), None]));
        RecordBatch::try_from_iter([("n", numbers), ("word", words)]).unwrap()
    }

    fn written(mut writer: impl RowWriter) -> String {
        let mut out = Vec::new();
        writer.write(&mut out, &batch()).unwrap();
        writer.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tables_look_like_psqls() {
        let expected = [
            "   n    |  word",
            "--------+--------",
            "      1 | 先駆け",
            "      ∅ | two   +",
            "        | lines",
            " -12345 | ∅",
            "(3 rows)",
            "",
            "",
        ];
        assert_eq!(written(TableWriter::new(&batch().schema(), "∅")), expected.join("\n"));
    }

    #[test]
    fn expanded_rows_name_every_value() {
        let found = written(ExpandedWriter::new(&batch().schema(), ""));
        assert!(found.starts_with("-[ RECORD 1 ]-----------\nn    | 1\nword | 先駆け\n-[ RECORD 2 ]"), "{found}");
        assert!(found.contains("word | two\n     | lines\n"), "{found}");
    }

    #[test]
    fn an_empty_result_has_its_titles() {
        let mut out = Vec::new();
        TableWriter::new(&batch().schema(), "").finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), " n | word\n---+------\n(0 rows)\n\n");
    }
}
