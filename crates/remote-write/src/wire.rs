//! The protobuf wire format, read in place.
//!
//! Accepts exactly what a proto3 parser must: fields in any order, unknown fields and groups skipped, packed and
//! unpacked repeated scalars. Errors carry a place, not an allocation.

/// A place in the message and what is wrong there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) offset: usize,
    pub(crate) reason: &'static str,
}

pub(crate) type Parsed<T> = Result<T, Fault>;

/// The value of one field, by wire type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    /// The bytes and their offset in the whole body.
    Bytes(&'b [u8], usize),
}

/// Walks the fields of one message.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'b> {
    bytes: &'b [u8],
    position: usize,
    /// Offset of `bytes` in the whole body, for errors.
    base: usize,
}

/// As deep as the reference implementations follow unknown groups.
const MAX_GROUP_DEPTH: u32 = 100;

impl<'b> Fields<'b> {
    pub(crate) fn new(bytes: &'b [u8], base: usize) -> Self {
        Fields { bytes, position: 0, base }
    }

    /// Where in the whole body the next field begins.
    pub(crate) fn offset(&self) -> usize {
        self.base + self.position
    }

    /// The bytes between here and a later place in the same message.
    pub(crate) fn up_to(&self, later: &Fields<'b>) -> &'b [u8] {
        &self.bytes[self.position..later.position]
    }

    fn fault(&self, reason: &'static str) -> Fault {
        Fault { offset: self.base + self.position, reason }
    }

    /// The next field that is not a group, or `None` at the end of the message.
    #[inline]
    pub(crate) fn next(&mut self) -> Parsed<Option<(u32, Value<'b>)>> {
        while self.position < self.bytes.len() {
            let (field, wire_type) = self.tag()?;
            match wire_type {
                3 => self.skip_group(field, MAX_GROUP_DEPTH)?,
                4 => return Err(self.fault("group end without a start")),
                _ => return Ok(Some((field, self.value(wire_type)?))),
            }
        }
        Ok(None)
    }

    /// The next field when it is the kind that bodies are full of: a length-delimited one whose tag and length take one
    /// byte each. Gives the tag byte, the contents and the offset at which the field begins; `None` (and no step
    /// forward) for anything else, which [`Fields::next`] then reads.
    #[inline(always)]
    pub(crate) fn next_short(&mut self) -> Option<(u8, &'b [u8], usize)> {
        let rest = &self.bytes[self.position..];
        let [tag, length, after @ ..] = rest else { return None };
        if tag & 0x87 != 2 || *length >= 0x80 {
            return None;
        }
        let contents = after.get(..usize::from(*length))?;
        let start = self.base + self.position;
        self.position += 2 + contents.len();
        Some((*tag, contents, start))
    }

    #[inline]
    fn tag(&mut self) -> Parsed<(u32, u8)> {
        let key = self.varint()?;
        let Ok(key) = u32::try_from(key) else {
            return Err(self.fault("field key out of range"));
        };
        if key >> 3 == 0 {
            return Err(self.fault("field number 0"));
        }
        Ok((key >> 3, (key & 7) as u8))
    }

    #[inline]
    fn value(&mut self, wire_type: u8) -> Parsed<Value<'b>> {
        match wire_type {
            0 => Ok(Value::Varint(self.varint()?)),
            1 => {
                let bytes = self.take(8)?;
                let bytes: [u8; 8] = bytes.try_into().map_err(|_| self.fault("truncated"))?;
                Ok(Value::Fixed64(u64::from_le_bytes(bytes)))
            }
            2 => {
                let length = self.varint()?;
                let start = self.base + self.position;
                let start = start.min(self.base + self.bytes.len());
                let Ok(length) = usize::try_from(length) else {
                    return Err(self.fault("length out of range"));
                };
                let bytes = self.take(length)?;
                Ok(Value::Bytes(bytes, start))
            }
            5 => {
                self.take(4)?;
                Ok(Value::Fixed32)
            }
            _ => Err(self.fault("unknown wire type")),
        }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Parsed<&'b [u8]> {
        match self.bytes[self.position..].get(..length) {
            Some(bytes) => {
                self.position += length;
                Ok(bytes)
            }
            None => Err(self.fault("truncated")),
        }
    }

    #[inline]
    fn varint(&mut self) -> Parsed<u64> {
        let rest = &self.bytes[self.position..];
        match rest.first() {
            Some(&byte) if byte < 0x80 => {
                self.position += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Parsed<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.bytes[self.position..].iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index as u32);
            if byte < 0x80 {
                // The tenth byte holds the 64th bit only.
                if index == 9 && byte > 1 {
                    return Err(self.fault("varint out of range"));
                }
                self.position += index + 1;
                return Ok(value);
            }
        }
        Err(self.fault(if self.bytes.len() - self.position < 10 {
            "truncated"
        } else {
            "varint out of range"
        }))
    }

    fn skip_group(&mut self, group: u32, depth: u32) -> Parsed<()> {
        if depth == 0 {
            return Err(self.fault("groups nested too deeply"));
        }
        loop {
            let (field, wire_type) = self.tag()?;
            match wire_type {
                3 => self.skip_group(field, depth - 1)?,
                4 if field == group => return Ok(()),
                4 => return Err(self.fault("group end does not match its start")),
                _ => {
                    self.value(wire_type)?;
                }
            }
        }
    }
}

impl<'b> Value<'b> {
    fn wrong_type(offset: usize) -> Fault {
        Fault { offset, reason: "wrong wire type" }
    }

    #[inline]
    pub(crate) fn varint(self, offset: usize) -> Parsed<u64> {
        match self {
            Value::Varint(value) => Ok(value),
            _ => Err(Self::wrong_type(offset)),
        }
    }

    #[inline]
    pub(crate) fn fixed64(self, offset: usize) -> Parsed<u64> {
        match self {
            Value::Fixed64(value) => Ok(value),
            _ => Err(Self::wrong_type(offset)),
        }
    }

    /// The bytes of a length-delimited field and their offset in the body.
    #[inline]
    pub(crate) fn bytes(self, offset: usize) -> Parsed<(&'b [u8], usize)> {
        match self {
            Value::Bytes(bytes, start) => Ok((bytes, start)),
            _ => Err(Self::wrong_type(offset)),
        }
    }

    #[inline]
    pub(crate) fn string(self, offset: usize) -> Parsed<&'b str> {
        let (bytes, start) = self.bytes(offset)?;
        std::str::from_utf8(bytes).map_err(|error| Fault {
            offset: start + error.valid_up_to(),
            reason: "string is not UTF-8",
        })
    }
}

/// Calls `each` with every element of a repeated varint field, packed or not.
#[inline]
pub(crate) fn repeated_varints(
    value: Value<'_>,
    offset: usize,
    mut each: impl FnMut(u64),
) -> Parsed<()> {
    match value {
        Value::Varint(value) => each(value),
        Value::Bytes(bytes, start) => {
            let mut packed = Fields::new(bytes, start);
            while packed.position < packed.bytes.len() {
                each(packed.varint()?);
            }
        }
        _ => return Err(Value::wrong_type(offset)),
    }
    Ok(())
}

/// Checks a repeated double field, packed or not.
pub(crate) fn repeated_doubles(value: Value<'_>, offset: usize) -> Parsed<()> {
    match value {
        Value::Fixed64(_) => Ok(()),
        Value::Bytes(bytes, _) if bytes.len() % 8 == 0 => Ok(()),
        Value::Bytes(_, start) => Err(Fault { offset: start, reason: "truncated" }),
        _ => Err(Value::wrong_type(offset)),
    }
}
