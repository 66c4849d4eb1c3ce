//! Functions between names and oids, which PostgreSQL has as casts to `regclass` and its like; and whether a name
//! alone means an object.

use datafusion::common::{Result, ScalarValue};

use super::super::objects::Objects;
use super::super::system::SystemCatalog;
use super::super::{describe, types};
use super::function::{Arguments, Definition, Returns, integer, lax, strict, text};
use saki_catalog::SqlError;

/// The functions that casts to `regclass` and its like become.
pub const REG_OID: &str = "pg_reg_oid";
pub const REG_TEXT: &str = "pg_reg_text";
/// As [`REG_OID`], but NULL for a name that means nothing: what `to_regclass` and its like become.
pub const REG_FIND: &str = "pg_reg_find";

pub const FUNCTIONS: &[Definition] = &[
    strict(REG_OID, Returns::Int8, reg_oid),
    strict(REG_TEXT, Returns::Text, reg_text),
    strict(REG_FIND, Returns::Int8, |system, args| {
        let (kind, name) = (args.text(0).unwrap_or_default(), args.text(1).unwrap_or_default());
        Ok(ScalarValue::Int64(lookup(system, &system.objects(), kind, name)))
    }),
    strict("to_regclass", Returns::Text, |system, args| to_reg(system, "regclass", args)),
    strict("to_regtype", Returns::Text, |system, args| to_reg(system, "regtype", args)),
    strict("to_regnamespace", Returns::Text, |system, args| to_reg(system, "regnamespace", args)),
    strict("to_regproc", Returns::Text, |system, args| to_reg(system, "regproc", args)),
    strict("to_regrole", Returns::Text, |system, args| to_reg(system, "regrole", args)),
    strict("pg_table_is_visible", Returns::Bool, |system, args| {
        let objects = system.objects();
        let relation = args.integer(0).and_then(|oid| objects.relation(oid));
        Ok(ScalarValue::Boolean(relation.map(|relation| relation.is_visible())))
    }),
    strict("pg_type_is_visible", Returns::Bool, yes),
    strict("pg_function_is_visible", Returns::Bool, yes),
    strict("pg_operator_is_visible", Returns::Bool, yes),
    strict("pg_opclass_is_visible", Returns::Bool, yes),
    strict("pg_opfamily_is_visible", Returns::Bool, yes),
    strict("pg_collation_is_visible", Returns::Bool, yes),
    strict("pg_conversion_is_visible", Returns::Bool, yes),
    strict("pg_statistics_obj_is_visible", Returns::Bool, yes),
    strict("pg_ts_config_is_visible", Returns::Bool, yes),
    strict("pg_ts_dict_is_visible", Returns::Bool, yes),
    strict("pg_ts_parser_is_visible", Returns::Bool, yes),
    strict("pg_ts_template_is_visible", Returns::Bool, yes),
    strict("like_escape", Returns::Text, |_, args| {
        Ok(text(Some(like_escape(args.text(0).unwrap_or_default(), args.text(1).unwrap_or_default()))))
    }),
    strict("parse_ident", Returns::TextList, |_, args| {
        let name = args.text(0).unwrap_or_default();
        let parts = parts(name);
        if parts.iter().any(String::is_empty) {
            let message = format!("string is not a valid identifier: {name:?}");
            return Err(SqlError::invalid(message).code("22023").into());
        }
        Ok(super::arrays::text_list(parts))
    }),
    strict("quote_ident", Returns::Text, |_, args| Ok(text(args.text(0).map(describe::quote_ident)))),
    strict("quote_literal", Returns::Text, |_, args| {
        Ok(text(Some(describe::quote_literal(&args.text(0).map_or_else(|| args.get(0).to_string(), str::to_owned)))))
    }),
    lax("quote_nullable", Returns::Text, |_, args| {
        let quoted = (!args.get(0).is_null())
            .then(|| describe::quote_literal(&args.text(0).map_or_else(|| args.get(0).to_string(), str::to_owned)));
        Ok(text(Some(quoted.unwrap_or_else(|| "NULL".to_owned()))))
    }),
];

/// A pattern with a backslash where it has another escape character.
fn like_escape(pattern: &str, escape: &str) -> String {
    let escape = escape.chars().next();
    let (mut out, mut letters) = (String::new(), pattern.chars());
    while let Some(letter) = letters.next() {
        if Some(letter) == escape {
            out.push('\\');
            out.extend(letters.next());
        } else if letter == '\\' {
            out.push_str("\\\\");
        } else {
            out.push(letter);
        }
    }
    out
}

fn yes(_: &SystemCatalog, _: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Boolean(Some(true)))
}

/// The parts of a dotted name, unquoted and folded as SQL does.
pub fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut quoted, mut letters) = (false, name.trim().chars().peekable());
    while let Some(letter) = letters.next() {
        let Some(part) = parts.last_mut() else { break };
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                part.push('"');
            }
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            letter if quoted => part.push(letter),
            letter => part.extend(letter.to_lowercase()),
        }
    }
    parts
}

/// The oid that a name means to one of the `reg` types.
fn lookup(system: &SystemCatalog, objects: &Objects, kind: &str, name: &str) -> Option<i64> {
    let parts = parts(name);
    let last = parts.last()?;
    match kind {
        "regclass" => {
            let schema = parts.len().checked_sub(2).and_then(|at| parts.get(at));
            objects.find(schema.map(String::as_str), last).map(|relation| relation.oid)
        }
        "regtype" => types::named(name).map(|row| row.oid).or_else(|| {
            let schema = parts.len().checked_sub(2).and_then(|at| parts.get(at)).map_or(saki_catalog::PUBLIC, |s| s);
            let element = last.strip_suffix("[]").map(str::trim_end);
            let mut all = objects.enum_types.iter();
            let of = all.find(|of| of.schema == schema && of.bare_name() == element.unwrap_or(last))?;
            Some(if element.is_some() { of.array_oid() } else { of.oid() }.into())
        }),
        "regnamespace" => objects.namespace(last).map(|namespace| namespace.oid),
        "regrole" => system.with_catalog(|catalog| catalog.role_named(last).map(|role| role.id.0.into())),
        "regproc" | "regprocedure" => {
            let bare = last.split('(').next().unwrap_or(last);
            Some(types::procedure_oid(bare)).filter(|oid| *oid != 0)
        }
        _ => None,
    }
}

/// What an oid is called.
fn name_of(system: &SystemCatalog, objects: &Objects, kind: &str, oid: i64) -> Option<String> {
    match kind {
        "regclass" => objects.relation(oid).map(|relation| relation.visible_name()),
        "regtype" => types::by_oid(oid).map(|_| types::format_type(oid, None)).or_else(|| objects.enumeration(oid)),
        "regnamespace" => {
            objects.namespaces.iter().find(|namespace| namespace.oid == oid).map(|n| describe::quote_ident(&n.name))
        }
        "regrole" => system.with_catalog(|catalog| {
            catalog.role(saki_catalog::RoleId(u32::try_from(oid).ok()?)).map(|role| role.name.clone())
        }),
        "regproc" | "regprocedure" => types::procedure_name(oid).map(str::to_owned),
        _ => None,
    }
}

/// `(kind, name or oid)` as an oid.
fn reg_oid(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    if let Some(oid) = integer(args.get(1)) {
        return Ok(ScalarValue::Int64(Some(oid)));
    }
    let (kind, name) = (args.text(0).unwrap_or_default(), args.text(1).unwrap_or_default());
    if name == "-" {
        return Ok(ScalarValue::Int64(Some(0)));
    }
    let objects = system.objects();
    match lookup(system, &objects, kind, name) {
        Some(oid) => Ok(ScalarValue::Int64(Some(oid))),
        None => Err(missing(&objects, kind, name).into()),
    }
}

/// `(kind, name or oid)` as a name.
fn reg_text(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let ScalarValue::Int64(Some(oid)) = reg_oid(system, args)? else { return Ok(text(None)) };
    if oid == 0 {
        return Ok(text(Some("-".to_owned())));
    }
    let kind = args.text(0).unwrap_or_default();
    Ok(text(Some(name_of(system, &system.objects(), kind, oid).unwrap_or_else(|| oid.to_string()))))
}

fn to_reg(system: &SystemCatalog, kind: &str, args: &Arguments<'_>) -> Result<ScalarValue> {
    let objects = system.objects();
    let oid = args.text(0).and_then(|name| lookup(system, &objects, kind, name));
    Ok(text(oid.and_then(|oid| name_of(system, &objects, kind, oid))))
}

fn missing(objects: &Objects, kind: &str, name: &str) -> SqlError {
    if kind == "regclass"
        && let [.., schema, _] = &parts(name)[..]
        && objects.namespace(schema).is_none()
    {
        return missing(objects, "regnamespace", schema);
    }
    let (what, code) = match kind {
        "regclass" => ("relation", "42P01"),
        "regtype" => ("type", "42704"),
        "regnamespace" => ("schema", "3F000"),
        "regrole" => ("role", "42704"),
        _ => ("function", "42883"),
    };
    SqlError::invalid(format!("{what} {name:?} does not exist")).code(code)
}

impl SystemCatalog {
    /// The relation that an oid or a name means.
    ///
    /// # Errors
    /// When a name means none.
    pub fn relation<'o>(
        &self,
        objects: &'o Objects,
        argument: &ScalarValue,
    ) -> Result<Option<&'o super::super::objects::Relation>> {
        if let Some(oid) = integer(argument) {
            return Ok(objects.relation(oid));
        }
        let Some(name) = argument.try_as_str().flatten() else { return Ok(None) };
        match lookup(self, objects, "regclass", name) {
            Some(oid) => Ok(objects.relation(oid)),
            None => Err(missing(objects, "regclass", name).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_at_dots_outside_of_quotes() {
        assert_eq!(parts("Public.Book"), ["public", "book"]);
        assert_eq!(parts("public.\"My.\"\"Book\""), ["public", "My.\"Book"]);
        assert_eq!(parts(" a "), ["a"]);
    }

    #[test]
    fn patterns_are_escaped_by_backslashes() {
        assert_eq!(like_escape("pg/_%", "/"), "pg\\_%");
        assert_eq!(like_escape("a\\b", "!"), "a\\\\b");
        assert_eq!(like_escape("a//", "/"), "a\\/");
    }
}
