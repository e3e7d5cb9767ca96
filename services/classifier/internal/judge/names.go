package judge

import (
	"strings"

	pgquery "github.com/pganalyze/pg_query_go/v6"
)

// words makes a set of words.
func words(list string) map[string]bool {
	s := make(map[string]bool)
	for _, w := range strings.Fields(list) {
		s[w] = true
	}
	return s
}

// systemSchema holds what is PostgreSQL's own.
const systemSchema = "pg_catalog"

// qualified takes a name apart. Names of three parts, the first being the
// database's, are not accepted.
func qualified(path []*pgquery.Node) (schema, name string, ok bool) {
	switch len(path) {
	case 1:
		return "", path[0].GetString_().GetSval(), true
	case 2:
		return path[0].GetString_().GetSval(), path[1].GetString_().GetSval(), true
	}
	return "", "", false
}

// isTemporary reports whether a schema holds temporary objects.
func isTemporary(schema string) bool {
	return schema == "pg_temp" || strings.HasPrefix(schema, "pg_temp_") || strings.HasPrefix(schema, "pg_toast_temp_")
}

// operators are the names in pg_operator. A user's operator may have the same name.
var operators = words(`
	!! !~ !~* !~~ !~~* # ## #- #> #>> % & && &< &<| &> * *< *<= *<> *= *> *>= + - -> ->> -|- / <
	<-> << <<= <<| <= <> <@ <^ = > >= >> >>= >^ ? ?# ?& ?- ?-| ?| ?|| @ @-@ @> @? @@ @@@ ^ ^@
	| |&> |/ |>> || ||/ ~ ~* ~<=~ ~<~ ~= ~>=~ ~>~ ~~ ~~*`)

// types are PostgreSQL's own, arrays and pseudo-types left out.
var types = words(`
	bool bytea char name int8 int2 int4 text oid tid xid cid xid8 json jsonb jsonpath xml
	point lseg path box polygon line circle float4 float8 money macaddr macaddr8 inet cidr
	aclitem bpchar varchar date time timestamp timestamptz interval timetz bit varbit numeric
	uuid tsvector tsquery refcursor pg_lsn txid_snapshot pg_snapshot
	regproc regprocedure regoper regoperator regclass regcollation regtype regrole regnamespace
	regconfig regdictionary
	int4range numrange tsrange tstzrange daterange int8range
	int4multirange nummultirange tsmultirange tstzmultirange datemultirange int8multirange`)

// catalogs are the relations of pg_catalog that hold nothing but replicated data:
// its tables, and the views over only those. The other views show the server or
// the session.
var catalogs = words(`
	pg_aggregate pg_am pg_amop pg_amproc pg_attrdef pg_attribute pg_auth_members pg_authid
	pg_cast pg_class pg_collation pg_constraint pg_conversion pg_database pg_db_role_setting
	pg_default_acl pg_depend pg_description pg_enum pg_event_trigger pg_extension
	pg_foreign_data_wrapper pg_foreign_server pg_foreign_table pg_index pg_inherits
	pg_init_privs pg_language pg_largeobject pg_largeobject_metadata pg_namespace pg_opclass pg_operator
	pg_opfamily pg_parameter_acl pg_partitioned_table pg_policy pg_proc pg_publication
	pg_publication_namespace pg_publication_rel pg_range pg_replication_origin pg_rewrite pg_seclabel pg_sequence
	pg_shdepend pg_shdescription pg_shseclabel pg_statistic pg_statistic_ext
	pg_statistic_ext_data pg_subscription pg_subscription_rel pg_tablespace pg_transform
	pg_trigger pg_ts_config pg_ts_config_map pg_ts_dict pg_ts_parser pg_ts_template pg_type
	pg_user_mapping
	pg_group pg_indexes pg_matviews pg_policies pg_publication_tables pg_roles pg_rules
	pg_seclabels pg_shadow pg_stats pg_stats_ext pg_stats_ext_exprs pg_tables pg_user pg_user_mappings pg_views`)

// OwnColumn reports whether a system column differs between servers: cmin and cmax,
// the numbers of commands in a transaction, are not in the log ("System Columns").
func OwnColumn(name string) bool { return name == "cmin" || name == "cmax" }

// SystemRelation reports whether a relation of pg_catalog holds nothing but
// replicated data.
func SystemRelation(name string) bool { return catalogs[name] }
