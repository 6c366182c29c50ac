//! The registry against the plan: every element of the plan is declared, and a scenario can write all of its fields.

use std::collections::BTreeSet;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use schemars::schema_for;
use serde_json::Value;
use weir_elements::{Delay, ElementInfo, Kind, Loss, Place, Queue, elements};

use crate::common::any_queue;

/// The elements of a type of the plan as its JSON schema gives them: name and fields.
fn in_schema(schema: &Value) -> BTreeSet<(String, BTreeSet<String>)> {
    let variants = schema["oneOf"].as_array().expect("a tagged enum");
    let fields = |variant: &Value| {
        let names = variant["properties"].as_object().expect("an object").keys();
        names.filter(|name| *name != "kind").cloned().collect()
    };
    let name = |variant: &Value| variant["properties"]["kind"]["const"].as_str().expect("a tag").to_owned();
    variants.iter().map(|variant| (name(variant), fields(variant))).collect()
}

/// What is declared of a place: name and first steps of the fields that its keys write.
fn declared(place: Place) -> BTreeSet<(String, BTreeSet<String>)> {
    let field = |field: &str| field.split('.').next().unwrap_or_default().to_owned();
    let describe = |info: &ElementInfo| (info.name.to_owned(), info.keys().map(|key| field(key.field)).collect());
    elements().filter(|info| info.place == place).map(describe).collect()
}

#[test]
fn every_element_of_the_plan_is_declared_with_its_fields() {
    let schema = |schema: schemars::Schema| in_schema(&schema.to_value());
    assert_eq!(declared(Place::Loss), schema(schema_for!(Loss)));
    assert_eq!(declared(Place::Delay), schema(schema_for!(Delay)));
    assert_eq!(declared(Place::Queue), schema(schema_for!(Queue)));
}

#[test]
fn names_are_unique_and_everything_is_described() {
    let names: BTreeSet<_> = elements().map(|info| info.name).collect();
    assert_eq!(names.len(), elements().count());
    let forms: Vec<_> = elements().flat_map(|info| info.forms).collect();
    assert_eq!(forms.iter().map(|form| form.name).collect::<BTreeSet<_>>().len(), forms.len());
    for info in elements() {
        assert!(!info.title.is_empty() && !info.forms.is_empty(), "{} says nothing", info.name);
        assert!(info.keys().all(|key| !key.name.is_empty() && !key.meaning.is_empty()), "{}", info.name);
    }
}

#[test]
fn the_declarations_are_in_the_order_of_a_link() {
    assert!(elements().is_sorted_by_key(|info| info.place));
}

#[test]
fn a_scenario_gives_every_queue_its_limit_and_a_plain_one_marks_nothing() {
    for info in elements().filter(|info| info.place == Place::Queue) {
        for form in info.forms {
            let limits = form.keys.iter().filter(|key| key.kind == Kind::Limit && key.field == "limit");
            assert_eq!(limits.count(), 1, "{}", form.name);
            assert!(!info.plain || !form.keys.iter().any(|key| key.kind == Kind::Ecn), "{}", form.name);
        }
    }
}

/// What holds of every queue is tried with every queue.
#[test]
fn the_property_tests_draw_every_queue() {
    let mut runner = TestRunner::deterministic();
    let drawn = (0..1000).map(|_| any_queue().new_tree(&mut runner).expect("a queue").current().info().name);
    let declared = elements().filter(|info| info.place == Place::Queue).map(|info| info.name);
    assert_eq!(drawn.collect::<BTreeSet<_>>(), declared.collect());
}
