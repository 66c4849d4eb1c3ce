//! JSON: one array per result, one object per line. Numbers stay numbers (a decimal keeps its digits), all else is
//! text.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};

use super::RowWriter;
use super::value::Cells;

pub struct JsonWriter {
    names: Vec<String>,
    rows: u64,
}

impl JsonWriter {
    pub fn new(schema: &SchemaRef) -> Self {
        let names = schema.fields().iter().map(|field| quoted(field.name())).collect();
        Self { names, rows: 0 }
    }
}

impl RowWriter for JsonWriter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let columns: Vec<(Cells, &DataType)> =
            batch.columns().iter().map(|array| (Cells::new(array), array.data_type())).collect();
        let (mut line, mut text) = (String::new(), String::new());
        for row in 0..batch.num_rows() {
            line.clear();
            line += if self.rows == 0 { "[\n{" } else { ",\n{" };
            for (position, ((cells, data_type), name)) in columns.iter().zip(&self.names).enumerate() {
                if position > 0 {
                    line.push(',');
                }
                line += name;
                line.push(':');
                text.clear();
                if !cells.append(row, &mut text) {
                    line += "null";
                } else if matches!(data_type, DataType::Boolean) {
                    line += if text == "t" { "true" } else { "false" };
                } else if data_type.is_numeric() && !text.ends_with(|c: char| c.is_alphabetic()) {
                    line += &text;
                } else {
                    line += &quoted(&text);
                }
            }
            line.push('}');
            out.write_all(line.as_bytes())?;
            self.rows += 1;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(if self.rows == 0 { b"[]\n" } else { b"\n]\n" })
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Float64Array, StringArray};

    use super::*;

    #[test]
    fn numbers_are_numbers_and_the_rest_is_text() {
        let decimals = Decimal128Array::from(vec![Some(1250), None]).with_precision_and_scale(15, 2).unwrap();
        let columns: [(&str, ArrayRef); 4] = [
            ("d", Arc::new(decimals)),
            ("f", Arc::new(Float64Array::from(vec![0.5, f64::NAN]))),
            ("b", Arc::new(BooleanArray::from(vec![true, false]))),
            ("s", Arc::new(StringArray::from(vec!["a\"b", "\n"]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = JsonWriter::new(&batch.schema());
        let mut out = Vec::new();
        writer.write(&mut out, &batch).unwrap();
        writer.finish(&mut out).unwrap();
        let found: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(found[0], serde_json::json!({"d": 12.5, "f": 0.5, "b": true, "s": "a\"b"}));
        assert_eq!(found[1], serde_json::json!({"d": null, "f": "NaN", "b": false, "s": "\n"}));
    }
}
