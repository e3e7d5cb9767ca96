package judge

// readFunctions are what Static knows: common functions that package builtin lets
// run on a replica, in all overloads that take any number of arguments but for
// age(xid), and that exist in PostgreSQL 15 to 18. Newer ones, such as any_value,
// may be a user's function on an older server.
var readFunctions = words(`
	array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp every
	json_agg json_object_agg jsonb_agg jsonb_object_agg max min mode percentile_cont
	percentile_disc range_agg range_intersect_agg regr_avgx regr_avgy regr_count regr_intercept
	regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop stddev_samp string_agg sum
	var_pop var_samp variance xmlagg
	cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number

	abs acos acosd acosh asin asind asinh atan atan2 atan2d atand atanh cbrt ceil ceiling cos cosd
	cosh cot cotd degrees div exp factorial floor gcd lcm ln log log10 min_scale mod pi pow power
	radians round scale sign sin sind sinh sqrt tan tand tanh trim_scale trunc width_bucket

	ascii bit_count bit_length bpchar btrim char_length character_length chr concat concat_ws
	convert convert_from convert_to decode encode format get_bit get_byte initcap is_normalized
	left length like_escape lower lpad ltrim md5 normalize octet_length overlay parse_ident
	position quote_ident quote_literal quote_nullable regexp_count regexp_instr regexp_like
	regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table
	regexp_substr repeat replace reverse right rpad rtrim set_bit set_byte sha224 sha256 sha384
	sha512 similar_escape similar_to_escape split_part starts_with string_to_array
	string_to_table strpos substr substring to_ascii to_hex translate unistr upper

	age clock_timestamp date_bin date_part date_trunc extract isfinite justify_days justify_hours
	justify_interval make_date make_interval make_time make_timestamp make_timestamptz now
	overlaps pg_sleep pg_sleep_for pg_sleep_until statement_timestamp timeofday timezone to_char
	to_date to_number to_timestamp transaction_timestamp

	bool date float4 float8 int2 int4 int8 interval money name numeric text time timestamp
	timestamptz timetz varbit varchar

	array_append array_cat array_dims array_fill array_length array_lower array_ndims
	array_position array_positions array_prepend array_remove array_replace array_to_json
	array_to_string array_upper cardinality trim_array unnest
	generate_series generate_subscripts num_nonnulls num_nulls pg_typeof gen_random_uuid random
	enum_first enum_last enum_range

	json_array_elements json_array_elements_text json_array_length json_build_array
	json_build_object json_each json_each_text json_extract_path json_extract_path_text
	json_object json_object_keys json_populate_record json_populate_recordset json_strip_nulls
	json_to_record json_to_recordset json_typeof
	jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array
	jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path jsonb_extract_path_text
	jsonb_insert jsonb_object jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz
	jsonb_path_match jsonb_path_match_tz jsonb_path_query jsonb_path_query_array
	jsonb_path_query_array_tz jsonb_path_query_first jsonb_path_query_first_tz
	jsonb_path_query_tz jsonb_populate_record jsonb_populate_recordset jsonb_pretty jsonb_set
	jsonb_set_lax jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof
	row_to_json to_json to_jsonb

	daterange datemultirange int4range int4multirange int8range int8multirange isempty lower_inc
	lower_inf multirange nummultirange numrange range_merge tsmultirange tsrange tstzmultirange
	tstzrange upper_inc upper_inf

	array_to_tsvector get_current_ts_config json_to_tsvector jsonb_to_tsvector numnode
	phraseto_tsquery plainto_tsquery querytree setweight strip to_tsquery to_tsvector ts_delete
	ts_filter ts_headline ts_lexize ts_rank ts_rank_cd tsquery_phrase tsvector_to_array
	websearch_to_tsquery

	abbrev broadcast family host hostmask inet_merge inet_same_family macaddr8_set7bit masklen
	netmask network set_masklen
	area box center circle diameter height line lseg npoints path point polygon radius slope width
	xml_is_well_formed xml_is_well_formed_content xml_is_well_formed_document xmlcomment
	xmlexists xpath xpath_exists

	current_database current_schema current_schemas current_user session_user getdatabaseencoding
	inet_server_addr inet_server_port pg_client_encoding version

	col_description format_type has_any_column_privilege has_column_privilege
	has_database_privilege has_foreign_data_wrapper_privilege has_function_privilege
	has_language_privilege has_schema_privilege has_sequence_privilege has_server_privilege
	has_table_privilege has_tablespace_privilege has_type_privilege obj_description
	pg_char_to_encoding pg_collation_for pg_collation_is_visible pg_column_compression
	pg_column_is_updatable pg_column_size pg_conversion_is_visible pg_database_size
	pg_describe_object pg_encoding_to_char pg_function_is_visible pg_get_constraintdef
	pg_get_expr pg_get_function_arg_default pg_get_function_arguments
	pg_get_function_identity_arguments pg_get_function_result pg_get_function_sqlbody
	pg_get_functiondef pg_get_indexdef pg_get_keywords pg_get_object_address
	pg_get_partition_constraintdef pg_get_partkeydef pg_get_ruledef pg_get_serial_sequence
	pg_get_statisticsobjdef pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_has_role
	pg_identify_object pg_index_column_has_property pg_index_has_property
	pg_indexam_has_property pg_indexes_size pg_opclass_is_visible pg_operator_is_visible
	pg_opfamily_is_visible pg_partition_ancestors pg_partition_root pg_partition_tree
	pg_relation_is_updatable pg_relation_size pg_size_bytes pg_size_pretty
	pg_statistics_obj_is_visible pg_table_is_visible pg_table_size pg_total_relation_size
	pg_ts_config_is_visible pg_ts_dict_is_visible pg_ts_parser_is_visible
	pg_ts_template_is_visible pg_type_is_visible pg_wal_lsn_diff row_security_active
	shobj_description to_regclass to_regcollation to_regnamespace to_regoper to_regoperator
	to_regproc to_regprocedure to_regrole to_regtype`)
