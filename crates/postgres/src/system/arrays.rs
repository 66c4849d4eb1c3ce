use crate::fixture::library;

#[test]
fn arrays_and_objects_are_as_postgresql_has_them() {
    library().check(&[(
        "select json_build_object('a', 1, 'b', 'x', 'c', null, 'd', true)::text",
        "{\"a\" : 1, \"b\" : \"x\", \"c\" : null, \"d\" : true}",
    )]);
}
