//! The keywords of JSON Schema, by the kind of value that they are about.

/// What a keyword is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Objects,
    Arrays,
    Strings,
    Numbers,
}

/// The keywords of each group, and the types that they concern.
const GROUPS: [(Group, &[&str], &[&str]); 4] = [
    (
        Group::Objects,
        &["object"],
        &[
            "properties",
            "patternProperties",
            "additionalProperties",
            "unevaluatedProperties",
            "required",
            "minProperties",
            "maxProperties",
            "propertyNames",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
        ],
    ),
    (
        Group::Arrays,
        &["array"],
        &[
            "items",
            "prefixItems",
            "additionalItems",
            "unevaluatedItems",
            "minItems",
            "maxItems",
            "contains",
            "minContains",
            "maxContains",
            "uniqueItems",
        ],
    ),
    (
        Group::Strings,
        &["string"],
        &["minLength", "maxLength", "pattern", "format"],
    ),
    (
        Group::Numbers,
        &["number", "integer"],
        &[
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ],
    ),
];

impl Group {
    /// Returns the group of a keyword.
    pub fn of(keyword: &str) -> Option<Group> {
        let mut groups = GROUPS.iter();
        let found = groups.find(|(_, _, keywords)| keywords.contains(&keyword));
        found.map(|(group, _, _)| *group)
    }

    /// Returns the types that the group's keywords concern.
    pub fn types(self) -> &'static [&'static str] {
        let found = GROUPS.iter().find(|(group, _, _)| *group == self);
        found.map_or(&[], |(_, types, _)| types)
    }
}

/// Keywords that hold schemas: in an object, in an array, or as their value.
pub(super) const SCHEMA_MAPS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
pub(super) const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
pub(super) const SCHEMAS: [&str; 11] = [
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
];
