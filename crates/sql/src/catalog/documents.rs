//! The catalog as named documents of its tree, and back; documents of earlier versions included.

use saki_base::{DataType, KeyColumn, KeyLayout, RowColumn, RowLayout};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Catalog, ColumnDetail, Table};
use crate::error::{Result, SqlError};

/// The document about the logs.
const LOGS: &str = "logs";

impl Catalog {
    /// Key and row layouts of the catalog tree: a document's name, and its JSON.
    pub fn entry_layout() -> (KeyLayout, RowLayout) {
        let key = KeyColumn { data_type: DataType::Text, nullable: false, descending: false };
        let row = RowColumn { data_type: DataType::Bytea, nullable: false };
        (KeyLayout::new([key]), RowLayout::new([row]))
    }

    /// Named documents to store: one for the counters, one for each table, view, sequence and schema.
    pub fn documents(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut documents = vec![(String::new(), encode(&(self.next_table, self.next_tree))?)];
        documents.push((LOGS.to_owned(), encode(&self.logs)?));
        for (name, table) in &self.tables {
            documents.push((format!("table {name}"), encode(table.as_ref())?));
        }
        for (name, view) in &self.views {
            documents.push((format!("view {name}"), encode(view.as_ref())?));
        }
        for (name, sequence) in &self.sequences {
            documents.push((format!("sequence {name}"), encode(sequence.as_ref())?));
        }
        for (name, schema) in &self.schemas {
            documents.push((format!("schema {name}"), encode(schema)?));
        }
        documents.sort();
        Ok(documents)
    }

    /// The inverse of [`Self::documents`].
    pub fn from_documents(documents: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Self> {
        let mut catalog = Self::default();
        for (name, bytes) in documents {
            match name.split_once(' ').map_or(name.as_str(), |(kind, _)| kind) {
                LOGS => catalog.logs = decode(&name, &bytes)?,
                "" => (catalog.next_table, catalog.next_tree) = decode(&name, &bytes)?,
                "table" => catalog.put(complete(decode(&name, &bytes)?)),
                "view" => catalog.put_view(decode(&name, &bytes)?),
                "sequence" => catalog.put_sequence(decode(&name, &bytes)?),
                "schema" => catalog.put_schema(decode(&name, &bytes)?),
                _ => {
                    return Err(SqlError::corrupt(format!("catalog entry {name:?} is of an unknown kind"))
                        .hint("the file was written by another version"));
                }
            }
        }
        Ok(catalog)
    }
}

/// Numbers the columns of a table that was stored before columns had ids.
fn complete(mut table: Table) -> Table {
    for id in table.details.len()..table.columns.len() {
        table.details.push(ColumnDetail { id: id as u32, ..ColumnDetail::default() });
    }
    let used = table.details.iter().map(|detail| detail.id + 1).max().unwrap_or(0);
    table.next_column_id = table.next_column_id.max(used);
    table
}

fn encode(document: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(document).map_err(|error| SqlError::internal(format!("catalog: {error}")))
}

fn decode<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| SqlError::corrupt(format!("catalog entry {name:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document as the version before column ids, defaults and constraints wrote it.
    const EARLIER: &str = r#"{"id":1,"name":"t","columns":[{"name":"a","data_type":"Int4","nullable":false},
        {"name":"b","data_type":{"Varchar":3},"nullable":true}],"primary_key":[0],"next_row_id":0,
        "root":{"id":1,"root":null,"height":0,"entries":0,"leaf_pages":0,"inner_pages":0,"overflow_pages":0},
        "indexes":[{"name":"t_b","columns":[{"column":1,"descending":true}],"unique":false,"include":[],
        "root":{"id":2,"root":null,"height":0,"entries":0,"leaf_pages":0,"inner_pages":0,"overflow_pages":0}}],"segments":null,"bloom":[],"statistics":null}"#;

    #[test]
    fn documents_of_an_earlier_version_are_understood() {
        let documents = [(String::new(), b"[1,2]".to_vec()), ("table t".to_owned(), EARLIER.as_bytes().to_vec())];
        let catalog = Catalog::from_documents(documents).unwrap();
        let table = catalog.get("t").unwrap();
        assert_eq!(table.details.iter().map(|detail| detail.id).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((table.next_column_id, table.schema.as_str(), table.bare_name()), (2, "public", "t"));
        assert!(!table.indexes[0].constraint && table.foreign_keys.is_empty());
        let again = Catalog::from_documents(catalog.documents().unwrap()).unwrap();
        assert_eq!(again.documents().unwrap(), catalog.documents().unwrap());
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        let error = Catalog::from_documents([("index x".to_owned(), b"{}".to_vec())]).unwrap_err();
        assert!(error.message.contains("unknown kind"), "{error}");
    }
}
