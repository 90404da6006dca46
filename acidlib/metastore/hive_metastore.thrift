// The part of a Hive metastore's interface that this library calls, and no more.
//
// Numbers and types are those of Hive 3.1.3 and 4.0.1; a member marked "4" is unknown to 3.1, which skips it.
// "required" stands where the server demands a member or promises one. A list or map declared with the wrong type is
// read as an empty one without a word: compare with the server before you change anything here.
// Enumerations travel as i32 and are kept as numbers, so that a value of a later Hive is not lost.

exception MetaException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception InvalidObjectException { 1: string message }
exception InvalidOperationException { 1: string message }
exception UnknownDBException { 1: string message }
exception ConfigValSecurityException { 1: string message }
exception NoSuchTxnException { 1: string message }
exception TxnAbortedException { 1: string message }
exception TxnOpenException { 1: string message }
exception NoSuchLockException { 1: string message }

// ---- databases, tables, partitions

struct Database {
  1: string name
  4: map<string, string> parameters
}

// of a table all that alter_table_req takes over: what it is not sent it would forget

struct FieldSchema {
  1: string name
  2: string type
  3: string comment
}

struct SerDeInfo {
  1: string name
  2: string serializationLib
  3: map<string, string> parameters
  4: optional string description
  5: optional string serializerClass
  6: optional string deserializerClass
  7: optional i32 serdeType
}

struct Order {
  1: string col
  2: i32 order
}

struct SkewedInfo {
  1: list<string> skewedColNames
  2: list<list<string>> skewedColValues
}

struct StorageDescriptor {
  1: list<FieldSchema> cols
  2: string location
  3: string inputFormat
  4: string outputFormat
  5: bool compressed
  6: i32 numBuckets
  7: SerDeInfo serdeInfo
  8: list<string> bucketCols
  9: list<Order> sortCols
  10: map<string, string> parameters
  11: optional SkewedInfo skewedInfo
  12: optional bool storedAsSubDirectories
}

struct Table {
  1: string tableName
  2: string dbName
  3: string owner
  4: i32 createTime
  5: i32 lastAccessTime
  6: i32 retention
  7: StorageDescriptor sd
  8: list<FieldSchema> partitionKeys
  9: map<string, string> parameters
  10: string viewOriginalText
  11: string viewExpandedText
  12: string tableType
  15: optional bool rewriteEnabled
  17: optional string catName                           // 4, as all that follow
  18: optional i32 ownerType
  19: optional i64 writeId
  25: optional i64 id
}

struct Partition {
  1: list<string> values
  4: i32 createTime
  6: StorageDescriptor sd
  7: map<string, string> parameters
}

struct ClientCapabilities {
  1: required list<i32> values
}

struct GetCatalogsResponse {
  1: required list<string> names
}

struct GetDatabaseRequest {
  1: optional string name
  2: optional string catalogName
}

struct GetTableRequest {
  1: required string dbName
  2: required string tblName
  3: optional ClientCapabilities capabilities
  4: optional string catName
}

struct GetTableResult {
  1: required Table table
}

struct EnvironmentContext {
  1: map<string, string> properties
}

struct AlterTableRequest {
  1: optional string catName
  2: required string dbName
  3: required string tableName
  4: required Table table
  5: optional EnvironmentContext environmentContext
  7: optional string validWriteIdList
  10: optional string expectedParameterKey
  11: optional string expectedParameterValue
}

struct AlterTableResponse {
}

struct GetTablesRequest {
  1: required string dbName
  2: optional list<string> tblNames
  3: optional ClientCapabilities capabilities
  4: optional string catName
}

struct GetTablesResult {
  1: required list<Table> tables
}

struct PartitionsRequest {
  1: optional string catName
  2: required string dbName
  3: required string tblName
  4: optional i16 maxParts
}

struct GetPartitionsByNamesRequest {
  1: required string db_name
  2: required string tbl_name
  3: optional list<string> names
}

struct GetPartitionsByNamesResult {
  1: required list<Partition> partitions
}

// ---- transactions and write ids

struct OpenTxnRequest {
  1: required i32 num_txns
  2: required string user
  3: required string hostname
  4: optional string agentInfo
  7: optional i32 txn_type                              // 4
}

struct OpenTxnsResponse {
  1: required list<i64> txn_ids
}

struct GetOpenTxnsRequest {
  1: optional list<i32> excludeTxnTypes
}

struct GetOpenTxnsResponse {
  1: required i64 txn_high_water_mark
  2: required list<i64> open_txns
  4: required binary abortedBits
}

struct TxnInfo {
  1: required i64 id
  2: required i32 state
  3: required string user
  4: required string hostname
  8: optional i64 startedTime
  9: optional i64 lastHeartbeatTime
}

struct GetOpenTxnsInfoResponse {
  2: required list<TxnInfo> open_txns
}

struct GetValidWriteIdsRequest {
  1: required list<string> fullTableNames
  2: required string validTxnList
}

struct TableValidWriteIds {
  1: required string fullTableName
  2: required i64 writeIdHighWaterMark
  3: required list<i64> invalidWriteIds
  4: optional i64 minOpenWriteId
  5: required binary abortedBits
}

struct GetValidWriteIdsResponse {
  1: required list<TableValidWriteIds> tblValidWriteIds
}

struct AllocateTableWriteIdsRequest {
  1: required string dbName
  2: required string tableName
  3: optional list<i64> txnIds
}

struct TxnToWriteId {
  1: required i64 txnId
  2: required i64 writeId
}

struct AllocateTableWriteIdsResponse {
  1: required list<TxnToWriteId> txnToWriteIds
}

struct CommitTxnRequest {
  1: required i64 txnid
  7: optional i32 txn_type                              // 4
}

struct AbortTxnRequest {
  1: required i64 txnid
  3: optional i32 txn_type                              // 4
}

struct HeartbeatRequest {
  1: optional i64 lockid
  2: optional i64 txnid
}

struct HeartbeatTxnRangeRequest {
  1: required i64 min
  2: required i64 max
}

struct HeartbeatTxnRangeResponse {
  1: required set<i64> aborted
  2: required set<i64> nosuch
}

// ---- locks

struct LockComponent {
  1: required i32 type
  2: required i32 level
  3: required string dbname
  4: optional string tablename
  5: optional string partitionname
  6: optional i32 operationType
  7: optional bool isTransactional
}

struct LockRequest {
  1: required list<LockComponent> component
  2: optional i64 txnid
  3: required string user
  4: required string hostname
  5: optional string agentInfo
  6: optional bool zeroWaitReadEnabled                  // 4
}

struct LockResponse {
  1: required i64 lockid
  2: required i32 state
  3: optional string errorMessage                       // 4
}

struct CheckLockRequest {
  1: required i64 lockid
  2: optional i64 txnid
}

struct UnlockRequest {
  1: required i64 lockid
}

struct ShowLocksRequest {
  1: optional string dbname
  2: optional string tablename
  3: optional string partname
}

struct ShowLocksResponseElement {
  1: required i64 lockid
  2: required string dbname
  3: optional string tablename
  4: optional string partname
  5: required i32 state
  6: required i32 type
  7: optional i64 txnid
  8: required i64 lastheartbeat
  9: optional i64 acquiredat
  10: required string user
  11: required string hostname
  13: optional string agentInfo
}

struct ShowLocksResponse {
  1: list<ShowLocksResponseElement> locks
}

// ---- compactions

struct CompactionRequest {
  1: required string dbname
  2: required string tablename
  3: optional string partitionname
  4: required i32 type
  5: optional string runas
  6: optional map<string, string> properties
  7: optional string initiatorId                        // 4
  8: optional string initiatorVersion                   // 4
  9: optional string poolName                           // 4
  10: optional i32 numberOfBuckets                      // 4
  11: optional string orderByClause                     // 4
}

struct CompactionResponse {
  1: required i64 id
  2: required string state
  3: required bool accepted
  4: optional string errormessage                       // 4
}

struct ShowCompactRequest {
  1: optional i64 id                                    // 4
  3: optional string dbName                             // 4
  4: optional string tbName                             // 4
  5: optional string partName                           // 4
}

struct ShowCompactResponseElement {
  1: required string dbname
  2: required string tablename
  3: optional string partitionname
  4: required i32 type
  5: required string state
  6: optional string workerid
  7: optional i64 start
  8: optional string runAs
  9: optional i64 hightestTxnId                         // despite its name a write id
  11: optional i64 endTime
  12: optional string hadoopJobId
  13: optional i64 id
  14: optional string errorMessage                      // 4, as all that follow
  15: optional i64 enqueueTime
  16: optional string workerVersion
  17: optional string initiatorId
  18: optional string initiatorVersion
  19: optional i64 cleanerStart
  20: optional string poolName
  21: optional i64 nextTxnId
  22: optional i64 txnId
  23: optional i64 commitTime
  24: optional i64 hightestWriteId
}

struct ShowCompactResponse {
  1: required list<ShowCompactResponseElement> compacts
}

struct CompactionInfoStruct {
  1: required i64 id
  2: required string dbname
  3: required string tablename
  4: optional string partitionname
  5: required i32 type
  6: optional string runas
  7: optional string properties
  9: optional string state                              // one letter; anything longer makes the server throw
  10: optional string workerId
  11: optional i64 start
  12: optional i64 highestWriteId
  13: optional string errorMessage
  15: optional i64 enqueueTime
  16: optional i64 retryRetention
  17: optional string poolname
  18: optional i32 numberOfBuckets
  19: optional string orderByClause
}

struct OptionalCompactionInfoStruct {
  1: optional CompactionInfoStruct ci
}

struct FindNextCompactRequest {
  1: optional string workerId
  2: optional string workerVersion
  3: optional string poolName
}

struct AbortCompactionRequest {
  1: required list<i64> compactionIds
}

struct AbortCompactionResponseElement {
  1: required i64 compactionId
  2: optional string status
  3: optional string message
}

struct AbortCompactResponse {
  1: required map<i64, AbortCompactionResponseElement> abortedcompacts
}

service Metastore {
  // both generations
  string getVersion()
  list<string> set_ugi(1: string user_name, 2: list<string> group_names) throws (1: MetaException o1)
  string get_config_value(1: string name, 2: string defaultValue) throws (1: ConfigValSecurityException o1)
  GetOpenTxnsResponse get_open_txns()
  GetOpenTxnsInfoResponse get_open_txns_info()
  OpenTxnsResponse open_txns(1: OpenTxnRequest rqst)
  void abort_txn(1: AbortTxnRequest rqst) throws (1: NoSuchTxnException o1)
  void commit_txn(1: CommitTxnRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  GetValidWriteIdsResponse get_valid_write_ids(1: GetValidWriteIdsRequest rqst)
      throws (1: NoSuchTxnException o1, 2: MetaException o2)
  AllocateTableWriteIdsResponse allocate_table_write_ids(1: AllocateTableWriteIdsRequest rqst)
      throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: MetaException o3)
  void heartbeat(1: HeartbeatRequest ids)
      throws (1: NoSuchLockException o1, 2: NoSuchTxnException o2, 3: TxnAbortedException o3)
  HeartbeatTxnRangeResponse heartbeat_txn_range(1: HeartbeatTxnRangeRequest txns)
  LockResponse lock(1: LockRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  LockResponse check_lock(1: CheckLockRequest rqst)
      throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: NoSuchLockException o3)
  void unlock(1: UnlockRequest rqst) throws (1: NoSuchLockException o1, 2: TxnOpenException o2)
  ShowLocksResponse show_locks(1: ShowLocksRequest rqst)
  CompactionResponse compact2(1: CompactionRequest rqst)
  ShowCompactResponse show_compact(1: ShowCompactRequest rqst)

  GetCatalogsResponse get_catalogs() throws (1: MetaException o1)
  list<string> get_databases(1: string pattern) throws (1: MetaException o1)
  list<string> get_all_databases() throws (1: MetaException o1)
  list<string> get_all_tables(1: string db_name) throws (1: MetaException o1)
  GetTableResult get_table_req(1: GetTableRequest req) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  GetTablesResult get_table_objects_by_name_req(1: GetTablesRequest req)
      throws (1: MetaException o1, 2: InvalidOperationException o2, 3: UnknownDBException o3)
  list<string> get_partition_names(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
      throws (1: NoSuchObjectException o1, 2: MetaException o2)

  // Hive 3.1
  Database get_database(1: string name) throws (1: NoSuchObjectException o1, 2: MetaException o2)

  // Hive 4
  Database get_database_req(1: GetDatabaseRequest request) throws (1: NoSuchObjectException o1, 2: MetaException o2)
  AlterTableResponse alter_table_req(1: AlterTableRequest req)
      throws (1: InvalidOperationException o1, 2: MetaException o2)
  list<string> fetch_partition_names_req(1: PartitionsRequest partitionReq)
      throws (1: NoSuchObjectException o1, 2: MetaException o2)
  GetPartitionsByNamesResult get_partitions_by_names_req(1: GetPartitionsByNamesRequest req)
      throws (1: MetaException o1, 2: NoSuchObjectException o2, 3: InvalidObjectException o3)
  GetOpenTxnsResponse get_open_txns_req(1: GetOpenTxnsRequest getOpenTxnsRequest)
  void add_write_ids_to_min_history(1: i64 txnId, 2: map<string, i64> writeIds) throws (1: MetaException o1)
  OptionalCompactionInfoStruct find_next_compact2(1: FindNextCompactRequest rqst) throws (1: MetaException o1)
  void set_hadoop_jobid(1: string jobId, 2: i64 cq_id)
  void update_compactor_state(1: CompactionInfoStruct cr, 2: i64 txn_id)
  void mark_compacted(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  void mark_failed(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  void mark_refused(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  void mark_cleaned(1: CompactionInfoStruct cr) throws (1: MetaException o1)
  AbortCompactResponse abort_Compactions(1: AbortCompactionRequest rqst)
}
