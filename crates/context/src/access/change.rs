//! Where each statement about roles and privileges goes.

use super::roles::Actor;
use super::{grants, roles};
use saki_catalog::{Catalog, Result, SqlError};
use saki_postgres::statement::{AccessStatement, Grant, Granted};

/// Makes the change that a statement asks for.
///
/// # Errors
/// 42501 if `who` may not, and what is wrong with what the statement names.
pub fn change(catalog: &mut Catalog, who: Actor, statement: &AccessStatement) -> Result<()> {
    use AccessStatement as S;
    match statement {
        S::CreateRole { name, options, members } => roles::create(catalog, who, name, options, members),
        S::AlterRole { role, options } => roles::alter(catalog, who, role, options),
        S::RenameRole { name, to } => roles::rename(catalog, who, name, to),
        S::RoleSetting { role, parameter, value } => {
            roles::set(catalog, who, role.as_ref(), parameter.as_deref(), value.as_deref())
        }
        S::DropRoles { names, if_exists } => roles::drop_roles(catalog, who, names, *if_exists),
        S::Members { group, members, add } => {
            let (granted, grantees) = (Granted::Roles(vec![group.clone()]), members.clone());
            let grant = Grant { revoke: !add, granted, grantees, option: false, granted_by: None, cascade: false };
            roles::grant(catalog, who, std::slice::from_ref(group), &grant)
        }
        S::Grant(grant) => match &grant.granted {
            Granted::Roles(of) => roles::grant(catalog, who, of, grant),
            _ => grants::grant(catalog, who, grant),
        },
        S::Defaults { roles, schemas, grant } => grants::defaults(catalog, who, roles, schemas, grant),
        S::Owner { kind, name, if_exists, to } => grants::set_owner(catalog, who, (*kind, name, *if_exists), to),
        S::Reassign { from, to } => grants::reassign(catalog, who, from, to),
        S::DropOwned { roles, .. } => grants::drop_owned(catalog, who, roles),
        S::SetRole { .. } | S::SetSession { .. } => Err(SqlError::internal("a session's role is not in the catalog")),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::Statement;
    use datafusion::sql::sqlparser::ast;

    use super::*;
    use saki_catalog::{ObjectId, ObjectKind, Privilege, RoleId};

    fn run(catalog: &mut Catalog, who: RoleId, sql: &str) -> String {
        let parsed = saki_postgres::statement::parse(sql).unwrap().pop();
        let Some(Statement::Statement(statement)) = parsed else { panic!("{sql}: no statement") };
        let ast::Statement::Call(call) = *statement else { panic!("{sql}: not about roles") };
        let statement = AccessStatement::of(&call).unwrap().unwrap();
        let who = Actor { current: who, session: who };
        match change(catalog, who, &statement) {
            Ok(()) => String::new(),
            Err(error) => format!("{} {}", error.sqlstate(), error.message),
        }
    }

    #[test]
    fn roles_come_and_go_by_those_who_may() {
        let mut catalog = Catalog::default();
        let owner = RoleId::OWNER;
        for (sql, told) in [
            ("CREATE ROLE ada LOGIN PASSWORD 'secret'", ""),
            ("CREATE ROLE ada", "42710 role \"ada\" already exists"),
            ("CREATE ROLE maker CREATEROLE", ""),
            ("CREATE ROLE pg_x", "42939 role name \"pg_x\" is reserved"),
            ("GRANT maker TO ada", ""),
            ("GRANT ada TO maker", "0LP01 role \"maker\" is a member of role \"ada\""),
            ("DROP ROLE saki", "2BP01 cannot drop role saki because it is required by the database system"),
            ("ALTER ROLE ada CONNECTION LIMIT 3 VALID UNTIL '2030-01-01'", ""),
            ("ALTER ROLE nobody LOGIN", "42704 role \"nobody\" does not exist"),
            ("DROP ROLE IF EXISTS nobody", ""),
        ] {
            assert_eq!(run(&mut catalog, owner, sql), told, "{sql}");
        }
        let (ada, maker) = (catalog.expect_role("ada").unwrap().id, catalog.expect_role("maker").unwrap().id);
        let verifier = catalog.role(ada).unwrap().verifier.clone().unwrap();
        assert!(verifier.starts_with("SCRAM-SHA-256$") && catalog.has_passwords());
        for (who, sql, told) in [
            (ada, "CREATE ROLE x", "42501 permission denied to create role"),
            (maker, "CREATE ROLE x SUPERUSER", "42501 must be superuser to create superusers"),
            (maker, "CREATE ROLE x", ""),
            (ada, "ALTER ROLE ada PASSWORD 'other'", ""),
            (ada, "ALTER ROLE ada CREATEDB", "42501 permission denied"),
            (ada, "DROP ROLE x", "42501 permission denied to drop role"),
            (
                ada,
                "ALTER ROLE saki PASSWORD 'mine'",
                "42501 must be superuser to alter superuser roles or change superuser attribute",
            ),
            (maker, "DROP ROLE maker", "55006 current user cannot be dropped"),
            (maker, "DROP ROLE x", ""),
        ] {
            assert_eq!(run(&mut catalog, who, sql), told, "{sql}");
        }
    }

    #[test]
    fn what_is_granted_keeps_a_role_and_goes_with_drop_owned() {
        let mut catalog = Catalog::default();
        assert_eq!(run(&mut catalog, RoleId::OWNER, "CREATE ROLE ada"), "");
        assert_eq!(run(&mut catalog, RoleId::OWNER, "GRANT CREATE ON SCHEMA public TO ada WITH GRANT OPTION"), "");
        let ada = catalog.expect_role("ada").unwrap().id;
        let rights = catalog.privileges_on(ada, ObjectId::PUBLIC_SCHEMA, ObjectKind::Schema);
        assert!(rights.contains(Privilege::Create) && rights.contains(Privilege::Usage));
        assert_eq!(run(&mut catalog, ada, "GRANT CREATE ON SCHEMA public TO PUBLIC"), "");
        assert_eq!(
            run(&mut catalog, ada, "GRANT ALL ON DATABASE d TO PUBLIC"),
            "42501 permission denied for database d"
        );
        assert!(run(&mut catalog, RoleId::OWNER, "DROP ROLE ada").starts_with("2BP01"));
        assert!(run(&mut catalog, RoleId::OWNER, "REVOKE CREATE ON SCHEMA public FROM ada").starts_with("2BP01"));
        assert_eq!(run(&mut catalog, RoleId::OWNER, "DROP OWNED BY ada"), "");
        assert_eq!(run(&mut catalog, RoleId::OWNER, "DROP ROLE ada"), "");
        assert_eq!(
            run(&mut catalog, RoleId::OWNER, "GRANT INSERT ON SCHEMA public TO PUBLIC"),
            "0LP01 invalid privilege type INSERT for schema"
        );
    }
}
