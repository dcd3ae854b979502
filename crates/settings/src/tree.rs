//! Values that remember where they were written, and their way into serde.

use crate::keys;
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use std::fmt::{self, Display};
use std::sync::Arc;

/// Where something was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A line of the file, from 1.
    Line(usize),
    /// A variable or a flag.
    Named(Arc<str>),
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where.
    pub place: Place,
    /// What.
    pub value: Value,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Vec<Entry>),
}

/// A key of a table and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key was written.
    pub place: Place,
    /// Its value.
    pub node: Node,
}

impl Node {
    pub(crate) fn empty() -> Self {
        Self { place: Place::Line(1), value: Value::Table(Vec::new()) }
    }

    pub(crate) fn new(place: &Place, value: Value) -> Self {
        Self { place: place.clone(), value }
    }

    fn child(&self, step: &str) -> Option<(&Place, &Self)> {
        match &self.value {
            Value::Table(entries) => {
                let found = entries.iter().find(|entry| entry.key == step)?;
                Some((&found.place, &found.node))
            }
            Value::List(items) => {
                let item = items.get(step.parse::<usize>().ok()?)?;
                Some((&item.place, item))
            }
            _ => None,
        }
    }

    /// Where the value at a path such as `endpoint[1].url` stands; of a missing key, where its table does.
    pub(crate) fn place_of(&self, path: &str) -> (Place, bool) {
        let (mut node, mut place, mut whole) = (self, self.place.clone(), true);
        for step in path.split(['.', '[']).map(|step| step.trim_end_matches(']')) {
            let Some((at, next)) = node.child(step) else {
                whole = false;
                break;
            };
            (node, place) = (next, at.clone());
        }
        (place, whole)
    }

    /// Sets a value, making tables on the way. What stands in the way as something else is replaced.
    pub(crate) fn set(&mut self, path: &str, node: Self) {
        let place = node.place.clone();
        let mut at = self;
        for key in path.split('.') {
            at = at.entry(key, &place);
        }
        *at = node;
    }

    /// Adds to the list at `path`.
    pub(crate) fn push(&mut self, path: &str, item: Self) {
        let place = item.place.clone();
        let list = self.entry(path, &place);
        if !matches!(list.value, Value::List(_)) {
            *list = Self::new(&place, Value::List(Vec::new()));
        }
        if let Value::List(items) = &mut list.value {
            items.push(item);
        }
    }

    fn entry(&mut self, key: &str, place: &Place) -> &mut Self {
        if !matches!(self.value, Value::Table(_)) {
            self.value = Value::Table(Vec::new());
        }
        let Value::Table(entries) = &mut self.value else { unreachable!("it was made a table") };
        let at = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
            let node = Self::new(place, Value::Null);
            entries.push(Entry { key: key.to_owned(), place: place.clone(), node });
            entries.len() - 1
        });
        &mut entries[at].node
    }
}

/// What serde found wrong, and where; filled in on the way out.
#[derive(Debug)]
pub struct Wrong {
    pub(crate) path: String,
    pub(crate) place: Option<Place>,
    pub(crate) what: String,
}

impl Wrong {
    fn below(mut self, step: &str, place: &Place) -> Self {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{step}{joint}{}", self.path);
        self.place.get_or_insert_with(|| place.clone());
        self
    }
}

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.what),
            path => write!(f, "{path}: {}", self.what),
        }
    }
}

impl std::error::Error for Wrong {}

/// What was expected, in the words of a reader rather than of the program.
fn wanted(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, 0 or more".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "path string" => "text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        _ => text,
    }
}

impl serde::de::Error for Wrong {
    fn custom<T: Display>(what: T) -> Self {
        Self { path: String::new(), place: None, what: what.to_string() }
    }

    /// Without the value: it may be a secret in the wrong place.
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Bool(_) => "true or false",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
            Unexpected::Str(_) => "text",
            Unexpected::Seq => "a list",
            Unexpected::Map => "a table",
            Unexpected::Unit | Unexpected::Option => "nothing",
            _ => "something else",
        };
        Self::custom(format!("must be {}, not {found}", wanted(expected)))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format!("must be {}", wanted(expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format!("needs {field}"))
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Value::Table(entries) => {
                visitor.visit_map(Entries { rest: entries.iter(), value: None })
            }
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        if let Value::Table(entries) = &self.value
            && let Some(entry) = entries.iter().find(|entry| !fields.contains(&&*entry.key))
        {
            let hint = keys::hint(&entry.key, fields.iter().copied());
            return Err(
                Wrong::custom(format!("no such key; {hint}")).below(&entry.key, &entry.place)
            );
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match &self.value {
            Value::Text(text) if variants.contains(&text.as_str()) => {
                visitor.visit_enum(Word(text))
            }
            Value::Text(text) => {
                let choice = variants.join(", ");
                Err(Wrong::custom(format!("\"{text}\" is none of {choice}")))
            }
            _ => Err(Wrong::custom(format!("must be one of {}, in quotes", variants.join(", ")))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'a>(std::iter::Enumerate<std::slice::Iter<'a, Node>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Wrong;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Wrong> {
        let Some((at, node)) = self.0.next() else { return Ok(None) };
        let result = seed.deserialize(node);
        result.map(Some).map_err(|wrong| wrong.below(&format!("[{at}]"), &node.place))
    }
}

struct Entries<'a> {
    rest: std::slice::Iter<'a, Entry>,
    value: Option<&'a Entry>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Wrong;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Wrong> {
        self.value = self.rest.next();
        let Some(entry) = self.value else { return Ok(None) };
        let key: StrDeserializer<'_, Wrong> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Wrong> {
        let Some(entry) = self.value.take() else { return Err(Wrong::custom("a key comes first")) };
        seed.deserialize(&entry.node).map_err(|wrong| wrong.below(&entry.key, &entry.place))
    }
}

/// A variant without content: configurations have no others.
struct Word<'a>(&'a str);

impl<'de> EnumAccess<'de> for Word<'de> {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Wrong> {
        let key: StrDeserializer<'_, Wrong> = self.0.into_deserializer();
        Ok((seed.deserialize(key)?, self))
    }
}

impl<'de> VariantAccess<'de> for Word<'de> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, Wrong> {
        Err(Wrong::custom("must have more than a name"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Wrong> {
        Err(Wrong::custom("must have more than a name"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Wrong> {
        Err(Wrong::custom("must have more than a name"))
    }
}
