//! Generates the table of types from the declarations of the Go types at v0.36.2 (kubernetes/api 2f4cefdb, apimachinery
//! ae3f98eb, apiextensions-apiserver e4eb1594, kube-aggregator af2b3496).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::go::{Field, Package, Type};
use crate::kinds::Resource;

/// Types that are bodies of requests and responses, not resources.
const OTHERS: &[&str] = &[
    "authentication/v1.TokenRequest",
    "autoscaling/v1.Scale",
    "meta/v1.DeleteOptions",
    "meta/v1.ListMeta",
    "meta/v1.PartialObjectMetadata",
    "meta/v1.Status",
    "policy/v1.Eviction",
];

/// Returns the text of `schema.txt`.
pub fn render(root: &Path, resources: &[Resource]) -> Result<String, anyhow::Error> {
    let mut reader = Reader { root: root.to_owned(), packages: BTreeMap::new(), rows: BTreeMap::new() };
    let kinds = resources.iter().map(|of| {
        let package = of.group.split('.').next().filter(|p| !p.is_empty()).unwrap_or("core");
        format!("{package}/{}.{}", of.version, of.kind)
    });
    let mut open: Vec<String> = OTHERS.iter().map(|name| (*name).to_owned()).chain(kinds).collect();
    while let Some(name) = open.pop() {
        if !reader.rows.contains_key(&name) {
            let mut found = BTreeSet::new();
            let rows = reader.rows_of(&name, &[], &mut found).with_context(|| name.clone())?;
            reader.rows.insert(name, rows);
            open.extend(found);
        }
    }
    let mut text = String::new();
    for (name, rows) in &reader.rows {
        text.push_str(name);
        if reader.is_atomic(name) {
            text.push_str(" atomic");
        }
        text.push('\n');
        for row in rows {
            let _ = writeln!(text, "\t{row}");
        }
    }
    Ok(text)
}

struct Reader {
    root: PathBuf,
    packages: BTreeMap<String, Package>,
    rows: BTreeMap<String, Vec<String>>,
}

impl Reader {
    /// Returns true for a struct that server-side apply treats as one value; it must have been read.
    fn is_atomic(&self, name: &str) -> bool {
        let of = name.split_once('.').and_then(|(package, of)| Some((self.packages.get(package)?, of)));
        of.is_some_and(|(package, of)| package.atomic.contains(of))
    }

    /// Returns the directory with the sources of a package (`core/v1`).
    fn dir(&self, package: &str) -> PathBuf {
        self.root.join(match package {
            "meta/v1" => "apimachinery/pkg/apis/meta/v1".to_owned(),
            "apiextensions/v1" => "apiextensions-apiserver/pkg/apis/apiextensions/v1".to_owned(),
            "apiregistration/v1" => "kube-aggregator/pkg/apis/apiregistration/v1".to_owned(),
            other => format!("api/{other}"),
        })
    }

    fn package(&mut self, name: &str) -> Result<&Package, anyhow::Error> {
        if !self.packages.contains_key(name) {
            let package = Package::read(&self.dir(name))?;
            self.packages.insert(name.to_owned(), package);
        }
        self.packages.get(name).context("read above")
    }

    fn rows_of(
        &mut self,
        name: &str,
        outer: &[String],
        found: &mut BTreeSet<String>,
    ) -> Result<Vec<String>, anyhow::Error> {
        let (package, of) = name.split_once('.').context("a qualified name")?;
        let fields = self.package(package)?.structs.get(of).cloned().with_context(|| format!("no struct {name}"))?;
        let mut rows = Vec::new();
        for field in fields {
            self.field(package, &field, outer, found, &mut rows)?;
        }
        Ok(rows)
    }

    fn field(
        &mut self,
        package: &str,
        field: &Field,
        outer: &[String],
        found: &mut BTreeSet<String>,
        rows: &mut Vec<String>,
    ) -> Result<(), anyhow::Error> {
        let json = field.tags.get("json").map(String::as_str).unwrap_or_default();
        let (name, options) = json.split_once(',').unwrap_or((json, ""));
        if name == "-" {
            return Ok(());
        }
        let number = field.tags.get("protobuf").and_then(|tag| tag.split(',').nth(1)).map(str::to_owned);
        let path: Vec<String> = outer.iter().cloned().chain(number).collect();
        if field.embedded && name.is_empty() {
            if let Type::Named(_, of) = &field.of
                && of == "TypeMeta"
            {
                // The order in Go, where the kind comes first.
                rows.extend(["kind string".to_owned(), "apiVersion string".to_owned()]);
                return Ok(());
            }
            let name = self.reference(package, &field.of)?;
            rows.extend(self.rows_of(&name, &path, found)?);
            return Ok(());
        }
        let marker = |name: &str| field.markers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let (pointer, of) = match &field.of {
            Type::Pointer(of) => (true, &**of),
            of => (false, of),
        };
        let shape = self.shape(package, of, found).with_context(|| name.to_owned())?;
        let omitted = options.split(',').any(|o| o == "omitempty" || o == "omitzero");
        let mut row = format!("{name} {shape}");
        let mut say = |text: &str| {
            row.push(' ');
            row.push_str(text);
        };
        if !omitted && marker("optional").is_none() {
            say("required");
        }
        if let Some(strategy) = field.tags.get("patchStrategy") {
            say(&format!("patch={strategy}"));
        }
        if let Some(key) = field.tags.get("patchMergeKey") {
            say(&format!("key={key}"));
        }
        if let Some(of) = marker("listType") {
            say(&format!("list={of}"));
        }
        let keys: Vec<&str> =
            field.markers.iter().filter(|(n, _)| n == "listMapKey").map(|(_, v)| v.as_str()).collect();
        if !keys.is_empty() {
            say(&format!("keys={}", keys.join("+")));
        }
        if let Some(of) = marker("mapType").or_else(|| marker("structType")) {
            say(&format!("map={of}"));
        }
        if let Some(values) = self.values(package, of)? {
            // A space separates the words of a row.
            let values: Vec<String> = values.iter().map(|value| value.replace(' ', "%20")).collect();
            say(&format!("enum={}", values.join("|")));
        }
        if path.is_empty() {
            bail!("{name} has no number");
        }
        say(&format!("pb={}", path.join(".")));
        let declared = self.go(package, of)?;
        if shape != "any" && declared != derived(&shape) {
            say(&format!("go={declared}"));
        }
        let scalar = !shape.contains(['/', '[', '{']);
        if scalar && (pointer || !omitted) {
            say("zero");
        }
        // `omitempty` has no effect on structs; only `omitzero` leaves empty ones out.
        let empty = options.split(',').any(|o| o == "omitempty") && (pointer || !is_struct(&shape));
        if !empty && !options.split(',').any(|o| o == "omitzero") {
            say(if pointer { "null" } else { "written" });
        }
        rows.push(row);
        Ok(())
    }

    /// Returns the values of an enum, or of a list of enums.
    fn values(&mut self, package: &str, of: &Type) -> Result<Option<Vec<String>>, anyhow::Error> {
        let named = match of {
            Type::Pointer(of) | Type::List(of) => return self.values(package, of),
            Type::Map(..) => return Ok(None),
            Type::Named(path, _) if !path.is_empty() && !path.starts_with("k8s.io/") => return Ok(None),
            named => named,
        };
        let Ok(qualified) = self.reference(package, named) else { return Ok(None) };
        let (home, name) = qualified.split_once('.').context("a qualified name")?;
        let home = self.package(home)?;
        let values = home.constants.get(name).filter(|_| home.enums.contains(name));
        Ok(values.map(|values| values.iter().cloned().collect()))
    }

    /// Returns the qualified name of an API struct.
    fn reference(&self, package: &str, of: &Type) -> Result<String, anyhow::Error> {
        let Type::Named(path, name) = of else { bail!("not a struct: {of:?}") };
        let package = match path.as_str() {
            "" => package.to_owned(),
            "k8s.io/apimachinery/pkg/apis/meta/v1" => "meta/v1".to_owned(),
            path => path.strip_prefix("k8s.io/api/").with_context(|| format!("unknown package {path}"))?.to_owned(),
        };
        Ok(format!("{package}.{name}"))
    }

    /// Returns the name of a type in Go's reflection: `v1.PodSpec`, `map[string]string`.
    fn go(&mut self, package: &str, of: &Type) -> Result<String, anyhow::Error> {
        Ok(match of {
            Type::Pointer(of) => format!("*{}", self.go(package, of)?),
            Type::List(of) => format!("[]{}", self.go(package, of)?),
            Type::Map(key, of) => format!("map[{}]{}", self.go(package, key)?, self.go(package, of)?),
            Type::Named(path, name) if path.is_empty() && name == "byte" => "uint8".to_owned(),
            Type::Named(path, name) if path.is_empty() && plain(name).is_some() => name.clone(),
            Type::Named(path, name) => {
                // The last part of the path is the package name, for all packages that the API uses.
                let home = if path.is_empty() { package } else { path };
                format!("{}.{name}", home.rsplit('/').next().unwrap_or(home))
            }
        })
    }

    fn shape(&mut self, package: &str, of: &Type, found: &mut BTreeSet<String>) -> Result<String, anyhow::Error> {
        let (path, name) = match of {
            Type::Pointer(of) => return self.shape(package, of, found),
            Type::List(of) if **of == Type::Named(String::new(), "byte".to_owned()) => return Ok("bytes".to_owned()),
            Type::List(of) => return Ok(format!("[]{}", self.shape(package, of, found)?)),
            Type::Map(_, of) => return Ok(format!("{{}}{}", self.shape(package, of, found)?)),
            Type::Named(path, name) => (path.as_str(), name.as_str()),
        };
        if path.is_empty()
            && let Some(plain) = plain(name)
        {
            return Ok(plain.to_owned());
        }
        let special = match (path, name) {
            ("k8s.io/apimachinery/pkg/types", _) => Some("string"),
            ("k8s.io/apimachinery/pkg/util/intstr", "IntOrString") => Some("intstr"),
            ("k8s.io/apimachinery/pkg/api/resource", "Quantity") => Some("quantity"),
            ("k8s.io/apimachinery/pkg/runtime", "RawExtension") => Some("any"),
            _ => None,
        };
        if let Some(special) = special {
            return Ok(special.to_owned());
        }
        let qualified = self.reference(package, of)?;
        let special = match qualified.as_str() {
            "meta/v1.Time" => Some("time"),
            "meta/v1.MicroTime" => Some("microtime"),
            "meta/v1.FieldsV1" | "apiextensions/v1.JSON" => Some("any"),
            "apiextensions/v1.JSONSchemaPropsOrBool" => Some("schemaorbool"),
            "apiextensions/v1.JSONSchemaPropsOrArray" => Some("schemaorlist"),
            "apiextensions/v1.JSONSchemaPropsOrStringArray" => Some("schemaorstrings"),
            _ => None,
        };
        if let Some(special) = special {
            return Ok(special.to_owned());
        }
        let (home, name) = qualified.split_once('.').context("a qualified name")?;
        let (home, name) = (home.to_owned(), name.to_owned());
        if let Some(underlying) = self.package(&home)?.named.get(&name).cloned() {
            return self.shape(&home, &underlying, found);
        }
        found.insert(qualified.clone());
        Ok(qualified)
    }
}

/// Returns the Go name of a type of which only the shape is known, derived as in the API server.
fn derived(shape: &str) -> String {
    if let Some(element) = shape.strip_prefix("[]") {
        return format!("[]{}", derived(element));
    }
    if let Some(values) = shape.strip_prefix("{}") {
        return format!("map[string]{}", derived(values));
    }
    match shape {
        "bytes" => "[]uint8".to_owned(),
        "number" => "float64".to_owned(),
        "time" => "v1.Time".to_owned(),
        "microtime" => "v1.MicroTime".to_owned(),
        "quantity" => "resource.Quantity".to_owned(),
        "intstr" => "intstr.IntOrString".to_owned(),
        "schemaorbool" => "v1.JSONSchemaPropsOrBool".to_owned(),
        "schemaorlist" => "v1.JSONSchemaPropsOrArray".to_owned(),
        "schemaorstrings" => "v1.JSONSchemaPropsOrStringArray".to_owned(),
        other => other.rsplit('/').next().unwrap_or(other).to_owned(),
    }
}

/// Returns true if a shape is a struct in Go.
fn is_struct(shape: &str) -> bool {
    !shape.starts_with(['[', '{'])
        && (shape.contains('/') || matches!(shape, "time" | "microtime" | "quantity" | "intstr" | "any"))
}

fn plain(name: &str) -> Option<&'static str> {
    Some(match name {
        "string" => "string",
        "bool" => "bool",
        "int32" => "int32",
        "int64" | "int" => "int64",
        "float64" => "number",
        _ => return None,
    })
}
