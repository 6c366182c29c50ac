//! The registry against the plan: every element of the plan is listed, under its name and with its parameters.

use std::collections::BTreeSet;

use weir_elements::{ElementInfo, Place, REGISTRY};

/// The elements of a place as the plan's JSON schema gives them: name and fields.
fn in_schema(definition: &str) -> BTreeSet<(String, BTreeSet<String>)> {
    let schema = weir_plan::schema();
    let variants = schema["$defs"][definition]["oneOf"].as_array().expect("a tagged enum");
    let fields = |variant: &serde_json::Value| {
        let names = variant["properties"].as_object().expect("an object").keys();
        names.filter(|name| *name != "kind").cloned().collect()
    };
    let name = |variant: &serde_json::Value| variant["properties"]["kind"]["const"].as_str().expect("a tag").to_owned();
    variants.iter().map(|variant| (name(variant), fields(variant))).collect()
}

fn registered(place: Place) -> BTreeSet<(String, BTreeSet<String>)> {
    let describe = |info: &ElementInfo| {
        (info.name.to_owned(), info.parameters.iter().map(|parameter| parameter.name.to_owned()).collect())
    };
    REGISTRY.iter().filter(|info| info.place == place).map(describe).collect()
}

#[test]
fn every_element_of_the_plan_is_registered_with_its_parameters() {
    assert_eq!(registered(Place::Queue), in_schema("Queue"));
    assert_eq!(registered(Place::Loss), in_schema("Loss"));
    assert_eq!(registered(Place::Delay), in_schema("Delay"));
}

#[test]
fn names_are_unique_and_everything_is_described() {
    let names: BTreeSet<_> = REGISTRY.iter().map(|info| info.name).collect();
    assert_eq!(names.len(), REGISTRY.len());
    for info in REGISTRY {
        assert!(!info.title.is_empty() && !info.parameters.is_empty(), "{} says nothing", info.name);
        assert!(info.parameters.iter().all(|p| !p.unit.is_empty() && !p.meaning.is_empty()), "{}", info.name);
    }
}

#[test]
fn the_registry_is_in_the_order_of_a_link() {
    assert!(REGISTRY.is_sorted_by_key(|info| info.place));
}
