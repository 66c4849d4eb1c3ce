//! The catalog as named documents of its tree, and back; documents of earlier versions included.

use saki_base::{DataType, KeyColumn, KeyLayout, RowColumn, RowLayout};
use serde::Serialize;
use serde::de::DeserializeOwned;

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::difference::{Changed, Difference};
use super::{Catalog, ColumnDetail, EnumType, ObjectId, Prepared, RoleId, Table};
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

    /// Named documents to store: one for the counters, one for the logs, one for each table, view, sequence, type,
    /// schema and role, for who may use what, and for what each open transaction has staged.
    pub fn documents(&self) -> Result<Vec<Document>> {
        let all = self.difference(&Self::default());
        let mut documents = Vec::new();
        for (name, json) in self.documents_of(&all)? {
            documents.extend(json.map(|json| (name, json)));
        }
        Ok(documents)
    }

    /// Documents that a publication writes, or takes away, to make this catalog of an older one; in the order of names.
    pub fn changed_documents(&self, older: &Self) -> Result<Vec<ChangedDocument>> {
        self.documents_of(&self.difference(older))
    }

    fn documents_of(&self, difference: &Difference) -> Result<Vec<ChangedDocument>> {
        let next = [&self.ids.table, &self.ids.tree].map(|next| next.load(Ordering::Relaxed));
        let mut documents = vec![(String::new(), Some(encode(&(next[0], next[1]))?))];
        documents.push((LOGS.to_owned(), Some(encode(&self.logs)?)));
        documents.extend(difference.documents()?);
        add(&mut documents, "staged", &difference.staged, |staged| staged.id.to_string())?;
        documents.sort();
        Ok(documents)
    }

    /// This catalog with what a transaction has prepared, and without what it has staged.
    ///
    /// # Errors
    /// XX001 if that cannot be read.
    pub fn with_prepared(&self, staged: u32, prepared: &Prepared) -> Result<Self> {
        let mut catalog = self.clone();
        catalog.staged.remove(&staged);
        for (document, json) in &prepared.documents {
            match json {
                Some(json) => catalog.put_document(document, json.as_bytes())?,
                None => catalog.remove_document(document),
            }
        }
        Ok(catalog)
    }

    /// The inverse of [`Self::documents`].
    pub fn from_documents(documents: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Self> {
        let mut catalog = Self::default();
        for (name, bytes) in documents {
            catalog.put_document(&name, &bytes)?;
        }
        Ok(catalog)
    }

    fn put_document(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        match name.split_once(' ').map_or(name, |(kind, _)| kind) {
            LOGS => self.logs = decode(name, bytes)?,
            "" => {
                let (table, tree) = decode(name, bytes)?;
                self.ids.table.fetch_max(table, Ordering::Relaxed);
                self.ids.tree.fetch_max(tree, Ordering::Relaxed);
            }
            "table" => self.put(complete(name, decode(name, bytes)?)?),
            "view" => self.put_view(decode(name, bytes)?),
            "sequence" => self.put_sequence(decode(name, bytes)?),
            "type" => self.put_enum_type(verified(name, decode(name, bytes)?)?),
            "schema" => self.put_schema(decode(name, bytes)?),
            "role" => self.put_role(decode(name, bytes)?),
            "access" => self.put_access(decode(name, bytes)?),
            "staged" => self.put_staged(decode(name, bytes)?),
            _ => {
                return Err(SqlError::corrupt(format!("catalog entry {name:?} is of an unknown kind"))
                    .hint("the file was written by another version"));
            }
        }
        Ok(())
    }

    fn remove_document(&mut self, document: &str) {
        let Some((kind, name)) = document.split_once(' ') else { return };
        match kind {
            "table" => drop(self.remove(name)),
            "view" => drop(self.remove_view(name)),
            "sequence" => drop(self.remove_sequence(name)),
            "type" => drop(self.remove_enum_type(name)),
            "schema" => drop(self.remove_schema(name)),
            "role" => drop(name.parse().map(|id| self.remove_role(RoleId(id)))),
            "access" => drop(name.parse().map(|id| self.remove_access(ObjectId(id)))),
            _ => {}
        }
    }
}

/// A name, and JSON.
pub type Document = (String, Vec<u8>);

/// The same; none where the document goes.
pub type ChangedDocument = (String, Option<Vec<u8>>);

impl Difference {
    /// The documents of all definitions that come, change or go.
    pub fn documents(&self) -> Result<Vec<ChangedDocument>> {
        let mut documents = Vec::new();
        add(&mut documents, "table", &self.tables, |table| table.name.clone())?;
        add(&mut documents, "view", &self.views, |view| view.name.clone())?;
        add(&mut documents, "sequence", &self.sequences, |sequence| sequence.name.clone())?;
        add(&mut documents, "type", &self.enum_types, |of| of.name.clone())?;
        add(&mut documents, "schema", &self.schemas, |schema| schema.name.clone())?;
        add(&mut documents, "role", &self.roles, |role| role.id.0.to_string())?;
        add(&mut documents, "access", &self.access, |access| access.object.0.to_string())?;
        Ok(documents)
    }
}

fn add<T: Serialize>(
    documents: &mut Vec<ChangedDocument>,
    kind: &str,
    changes: &[Changed<T>],
    name: impl Fn(&T) -> String,
) -> Result<()> {
    for Changed { before, after } in changes {
        let Some(definition) = after.as_ref().or(before.as_ref()) else { continue };
        let json = after.as_ref().map(|after| encode(after.as_ref())).transpose()?;
        documents.push((format!("{kind} {}", name(definition)), json));
    }
    Ok(())
}

/// Numbers the columns of a table that was stored before columns had ids.
fn complete(name: &str, mut table: Table) -> Result<Table> {
    for id in table.details.len()..table.columns.len() {
        table.details.push(ColumnDetail { id: id as u32, ..ColumnDetail::default() });
    }
    let used = table.details.iter().map(|detail| detail.id + 1).max().unwrap_or(0);
    table.next_column_id = table.next_column_id.max(used);
    let columns = table.details.iter().zip(&table.columns);
    let columns = columns
        .map(|(detail, column)| (detail.id, RowColumn { data_type: column.data_type, nullable: column.nullable }));
    let refused = |what: String| SqlError::corrupt(format!("catalog entry {name:?}: {what}"));
    table.stored.verify(columns).map_err(refused)?;
    Ok(table)
}

/// Labels are found by their numbers.
fn verified(name: &str, of: EnumType) -> Result<EnumType> {
    let labels: HashSet<&str> = of.labels.iter().map(|(label, _)| label.as_str()).collect();
    match of.labels.is_sorted_by(|(_, a), (_, b)| a < b) && labels.len() == of.labels.len() {
        true => Ok(of),
        false => Err(SqlError::corrupt(format!("catalog entry {name:?}: labels out of order, or twice"))),
    }
}

fn encode(document: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(document).map_err(|error| SqlError::internal(format!("catalog: {error}")))
}

fn decode<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| SqlError::corrupt(format!("catalog entry {name:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use saki_base::TableId;

    use super::*;
    use crate::catalog::{
        Access, Acl, Check, DefaultAcl, Deferral, ForeignKey, Identity, Index, KeyId, LogState, ObjectKind,
        ReferentialAction, RelationKind, Role, SchemaEntry, Sequence, SequenceOwner, SequencePosition, View,
        ViewColumn, nextval, same_layout, undefined_column,
    };
    use crate::error::ErrorKind;
    use crate::fixture::{column, index, table};

    /// A document as the version before column ids, defaults and constraints wrote it.
    const EARLIER: &str = r#"{"id":1,"name":"t","columns":[{"name":"a","data_type":"Int4","nullable":false},
        {"name":"b","data_type":{"Varchar":3},"nullable":true}],"primary_key":[0],"next_row_id":0,
        "root":{"id":1,"root":null,"height":0,"entries":0,"leaf_pages":0,"inner_pages":0,"overflow_pages":0},
        "indexes":[{"name":"t_b","columns":[{"column":1,"descending":true}],"unique":false,"include":[],
        "root":{"id":2,"root":null,"height":0,"entries":0,"leaf_pages":0,"inner_pages":0,"overflow_pages":0}}],
        "segments":null,"bloom":[],"statistics":null}"#;

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
    fn a_foreign_key_from_before_it_could_wait_is_checked_by_each_statement() {
        let key =
            r#"{"name":"k","columns":[1],"table":7,"referenced":[0],"on_delete":"Cascade","on_update":"NoAction"}"#;
        let key: ForeignKey = serde_json::from_str(key).unwrap();
        assert_eq!((key.deferral, key.comment), (Deferral::Never, None));
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        let error = Catalog::from_documents([("index x".to_owned(), b"{}".to_vec())]).unwrap_err();
        assert!(error.message.contains("unknown kind"), "{error}");
    }

    /// A catalog with one document of each kind, every field of them filled.
    fn full() -> Catalog {
        let mut catalog = Catalog::default();
        let mut parent = table("s.parent", vec![column("id", DataType::Int8, false)], vec![0]);
        (parent.schema, parent.id) = ("s".to_owned(), catalog.new_table_id());
        let mut child =
            table("child", vec![column("a", DataType::Int4, false), column("b", DataType::Int8, true)], vec![0]);
        child.id = catalog.new_table_id();
        child.root.id = catalog.new_tree_id();
        child.details[0].identity = Some(Identity::Always);
        child.details[1].default = Some("7".to_owned());
        child.details[1].comment = Some("of b".to_owned());
        let (name, expression) = ("positive".to_owned(), "a > 0".to_owned());
        child.checks.push(Check { name, expression, comment: Some("why".to_owned()) });
        child.foreign_keys.push(ForeignKey {
            name: "child_b_fkey".to_owned(),
            columns: vec![1],
            table: parent.id,
            referenced: vec![0],
            on_delete: ReferentialAction::Cascade,
            on_update: ReferentialAction::SetNull,
            deferral: Deferral::InitiallyDeferred,
            comment: Some("of the parent".to_owned()),
        });
        child.indexes.push(Index { constraint: true, ..index("child_b_key", &[(1, true)], true, &[0]) });
        (child.resident, child.next_row_id, child.merged_through, child.layout_version) = (true, 9, 77, 3);
        child.tier = crate::TableTier::Slow;
        let sequence = Sequence {
            id: catalog.new_table_id(),
            name: "child_a_seq".to_owned(),
            schema: "public".to_owned(),
            data_type: DataType::Int4,
            start: 1,
            increment: -2,
            min: -100,
            max: 1,
            cycle: true,
            cache: 5,
            owner: Some(SequenceOwner { table: child.id, column: 0 }),
            position: SequencePosition { last_value: -3, is_called: true },
            version: 2,
            comment: None,
        };
        let view = View {
            id: catalog.new_table_id(),
            name: "v".to_owned(),
            schema: "public".to_owned(),
            sql: "SELECT a FROM child".to_owned(),
            columns: vec![ViewColumn { name: "x".to_owned(), source: "a".to_owned(), data_type: None }],
            relations: vec!["child".to_owned()],
            uses: [(child.id.0, vec![0])].into(),
            comment: Some("a view".to_owned()),
        };
        let id = catalog.new_table_id();
        catalog.put_schema(SchemaEntry { id, name: "s".to_owned(), comment: None });
        let role = Role::new(catalog.new_role_id(), "ada");
        let mut access = Access::new(child.id.into(), role.id);
        access.columns.insert(1, Acl::of_new(ObjectKind::Table, role.id));
        let defaults = vec![DefaultAcl { kind: ObjectKind::Table, schema: Some(id), acl: Acl::default() }];
        catalog.put_role(Role { verifier: Some("v".to_owned()), valid_until: Some(7), defaults, ..role });
        catalog.put_access(access);
        catalog.put(parent);
        catalog.put(child);
        catalog.put_sequence(sequence);
        catalog.put_view(view);
        catalog.logs = LogState { database: Some(42), logs: 2, merged_through: 70, known_through: 75 };
        catalog
    }

    #[test]
    fn every_document_is_read_as_it_was_written() {
        let catalog = full();
        let again = Catalog::from_documents(catalog.documents().unwrap()).unwrap();
        assert_eq!(again.documents().unwrap(), catalog.documents().unwrap());
        assert_eq!((again.new_table_id(), again.new_tree_id()), (catalog.new_table_id(), catalog.new_tree_id()));
        assert_eq!(again.sequence("child_a_seq"), catalog.sequence("child_a_seq"));
        assert_eq!(again.view("v"), catalog.view("v"));
        assert_eq!(again.logs, catalog.logs);
    }

    #[test]
    fn what_a_transaction_has_prepared_is_made_of_its_documents() {
        let (after, before) = (full(), Catalog::default());
        for (from, to) in [(&before, &after), (&after, &before)] {
            let documents = to.difference(from).documents().unwrap().into_iter();
            let text = |json: Vec<u8>| String::from_utf8(json).unwrap();
            let documents = documents.map(|(name, json)| (name, json.map(text))).collect();
            let made = from.with_prepared(0, &Prepared { documents }).unwrap();
            assert!(made.difference(from).is_empty() == to.difference(from).is_empty());
            let of = |catalog: &Catalog| catalog.difference(&before).documents().unwrap();
            assert_eq!(of(&made), of(to));
        }
    }

    #[test]
    fn a_document_that_is_rotten_is_named() {
        for (position, (name, bytes)) in full().documents().unwrap().into_iter().enumerate() {
            let mut documents = full().documents().unwrap();
            documents[position].1.truncate(bytes.len() / 2);
            let error = Catalog::from_documents(documents).unwrap_err();
            assert_eq!((error.kind, error.sqlstate()), (ErrorKind::Corrupt, "XX001"));
            assert!(error.message.starts_with(&format!("catalog entry {name:?}: ")), "{error}");
        }
    }

    #[test]
    fn foreign_keys_are_found_from_both_sides() {
        let catalog = full();
        let (parent, child) = (catalog.table("s.parent").unwrap(), catalog.table("child").unwrap());
        let (to, columns) = catalog.referenced(&child.foreign_keys[0]).unwrap();
        assert_eq!((to.id, columns), (parent.id, vec![0]));
        let id = child.foreign_keys[0].id(child);
        let (found, key) = catalog.foreign_key(&id).unwrap();
        assert_eq!((found.id, key.name.as_str()), (child.id, "child_b_fkey"));
        assert!(catalog.foreign_key(&KeyId { referenced: vec![1], ..id }).is_none());
        let from: Vec<_> = catalog.referencing(parent.id).map(|(table, key)| (table.id, key.name.as_str())).collect();
        assert_eq!(from, [(child.id, "child_b_fkey")]);
        assert!(!child.is_free_of_references() && parent.is_free_of_references());
        assert!(!parent.is_free_of_rules(&catalog), "somebody refers to it");
        let lost = ForeignKey { table: TableId(99), ..child.foreign_keys[0].clone() };
        assert_eq!(catalog.referenced(&lost).unwrap_err().kind, ErrorKind::Internal);
    }

    #[test]
    fn names_are_one_space_and_errors_say_what_there_is() {
        let catalog = full();
        for (name, kind) in [
            ("child", RelationKind::Table),
            ("v", RelationKind::View),
            ("child_a_seq", RelationKind::Sequence),
            ("child_b_key", RelationKind::Index),
        ] {
            assert_eq!(catalog.kind_of(name), Some(kind));
            assert_eq!(catalog.refuse_taken(name).unwrap_err().sqlstate(), "42P07");
        }
        assert!(catalog.refuse_taken("free").is_ok());
        for (name, code, hint) in [
            ("nothing", "42P01", "tables are: child, s.parent"),
            ("v", "42809", "it is a view"),
            ("child_b_key", "42809", "it is an index"),
            ("child_a_seq", "42809", "it is a sequence"),
        ] {
            let error = catalog.table(name).unwrap_err();
            assert_eq!((error.sqlstate(), error.hint.as_deref()), (code, Some(hint)));
        }
        let none = Catalog::default();
        assert_eq!(none.table("t").unwrap_err().hint.as_deref(), Some("the database has no tables yet"));
        let column = undefined_column(catalog.table("child").unwrap(), "z");
        assert_eq!((column.sqlstate(), column.hint.as_deref()), ("42703", Some("its columns are: a, b")));
    }

    #[test]
    fn a_default_is_a_text_or_draws_from_the_columns_sequence() {
        let catalog = full();
        let child = catalog.table("child").unwrap();
        assert_eq!(child.default_of(&catalog, 0).as_deref(), Some("nextval('child_a_seq')"));
        assert_eq!(child.default_of(&catalog, 1).as_deref(), Some("7"));
        assert!(child.has_default(0) && child.has_default(1) && !child.has_default(2));
        assert_eq!(nextval("s.Odd's"), "nextval('\"s.Odd''s\"')");
    }

    #[test]
    fn a_table_that_is_laid_out_anew_gets_another_delta() {
        let mut catalog = full();
        catalog.renew_deltas(&Catalog::default());
        let delta = |catalog: &Catalog, name| catalog.table(name).unwrap().delta;
        let (child, parent) = (delta(&catalog, "child"), delta(&catalog, "s.parent"));
        assert!(child != parent && child != TableId(0));
        let before = catalog.clone();
        let mut changed = Table::clone(catalog.table("child").unwrap());
        changed.columns[1].nullable = false;
        catalog.put(changed);
        catalog.renew_deltas(&before);
        assert_ne!(delta(&catalog, "child"), child);
        assert_eq!(delta(&catalog, "s.parent"), parent, "its rows lie as before");
    }

    #[test]
    fn layouts_differ_by_types_keys_and_versions_and_not_by_names() {
        let base = Table::clone(full().table("child").unwrap());
        let changed = |change: fn(&mut Table)| {
            let mut table = base.clone();
            change(&mut table);
            same_layout(&base, &table)
        };
        assert!(changed(|table| table.columns[0].name = "z".to_owned()));
        assert!(changed(|table| table.comment = Some("new".to_owned())));
        assert!(!changed(|table| table.columns[0].data_type = DataType::Int8));
        assert!(!changed(|table| table.columns[1].nullable = false));
        assert!(!changed(|table| table.primary_key = vec![1]));
        assert!(!changed(|table| table.indexes[0].unique = false));
        assert!(!changed(|table| table.layout_version += 1));
    }

    #[test]
    fn constraints_are_known_by_their_names() {
        let child = Table::clone(full().table("child").unwrap());
        for name in ["child_pkey", "positive", "child_b_fkey", "child_b_key"] {
            assert!(child.has_constraint(name), "{name}");
        }
        assert!(!child.has_constraint("child"));
        assert!(child.is_unique_by(&[0]) && child.is_unique_by(&[1]) && !child.is_unique_by(&[0, 1]));
    }

    proptest::proptest! {
        /// Names of any letters, with and without schemas.
        #[test]
        fn names_of_any_letters_are_read_back(
            names in proptest::collection::btree_set("[^\\x00]{1,12}", 1..6),
            comment in proptest::option::of("[^\\x00]{0,20}"),
        ) {
            let mut catalog = Catalog::default();
            for name in &names {
                let mut table = table(name, vec![column(name, DataType::Text, true)], Vec::new());
                table.id = catalog.new_table_id();
                table.comment.clone_from(&comment);
                catalog.put(table);
            }
            let again = Catalog::from_documents(catalog.documents().unwrap()).unwrap();
            let read: Vec<&String> = again.tables().map(|table| &table.name).collect();
            proptest::prop_assert_eq!(read, names.iter().collect::<Vec<_>>());
            for table in again.tables() {
                proptest::prop_assert_eq!(&table.columns[0].name, &table.name);
                proptest::prop_assert_eq!(&table.comment, &comment);
            }
        }

        /// Whatever a document holds, it is read or refused as rotten.
        #[test]
        fn bytes_that_are_no_document_are_refused(
            kind in proptest::sample::select(vec![
                "", "logs", "table t", "view v", "sequence s", "schema s", "role 1", "access 1",
            ]),
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
        ) {
            if let Err(error) = Catalog::from_documents([(kind.to_owned(), bytes)]) {
                proptest::prop_assert_eq!(error.sqlstate(), "XX001");
            }
        }
    }

    #[test]
    fn a_table_that_loses_a_field_is_refused_or_has_what_it_had_before_the_field() {
        let needed = ["id", "name", "columns", "primary_key", "next_row_id", "root", "indexes"];
        let document: serde_json::Value = serde_json::from_str(EARLIER).unwrap();
        for field in needed {
            let mut document = document.clone();
            document.as_object_mut().unwrap().remove(field).unwrap();
            let error =
                Catalog::from_documents([("table t".to_owned(), document.to_string().into_bytes())]).unwrap_err();
            assert!(error.message.contains(&format!("missing field `{field}`")), "{error}");
        }
    }

    #[test]
    fn ids_of_columns_are_never_given_twice() {
        let mut table =
            table("t", vec![column("a", DataType::Int4, true), column("b", DataType::Int4, true)], Vec::new());
        table.details.truncate(1);
        (table.details[0].id, table.next_column_id) = (9, 0);
        let table = complete("t", table).unwrap();
        assert_eq!((table.details.len(), table.next_column_id), (2, 10));
    }
}
