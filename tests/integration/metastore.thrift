// What tests call of the metastores of Hive 3.1 and 4.0, independent of the library's own interface.

exception MetaException { 1: string message }
exception AlreadyExistsException { 1: string message }
exception InvalidObjectException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception InvalidOperationException { 1: string message }
exception NoSuchTxnException { 1: string message }
exception TxnAbortedException { 1: string message }
exception TxnOpenException { 1: string message }
exception NoSuchLockException { 1: string message }

struct Catalog { 1: string name, 2: string description, 3: string locationUri }
struct CreateCatalogRequest { 1: Catalog catalog }
struct DropCatalogRequest { 1: string name }
struct Database { 1: string name, 2: string description, 3: string locationUri, 4: map<string,string> parameters,
  8: string catalogName }
struct FieldSchema { 1: string name, 2: string type, 3: string comment }
struct SerDeInfo { 1: string name, 2: string serializationLib, 3: map<string,string> parameters }
struct Order { 1: string col, 2: i32 order }
struct StorageDescriptor { 1: list<FieldSchema> cols, 2: string location, 3: string inputFormat,
  4: string outputFormat, 5: bool compressed, 6: i32 numBuckets, 7: SerDeInfo serdeInfo, 8: list<string> bucketCols,
  9: list<Order> sortCols, 10: map<string,string> parameters }
struct Table { 1: string tableName, 2: string dbName, 3: string owner, 4: i32 createTime, 5: i32 lastAccessTime,
  6: i32 retention, 7: StorageDescriptor sd, 8: list<FieldSchema> partitionKeys, 9: map<string,string> parameters,
  10: string viewOriginalText, 11: string viewExpandedText, 12: string tableType, 17: string catName }
struct Partition { 1: list<string> values, 2: string dbName, 3: string tableName, 4: i32 createTime,
  5: i32 lastAccessTime, 6: StorageDescriptor sd, 7: map<string,string> parameters, 9: string catName }
struct CreateTableRequest { 1: Table table, 9: list<string> processorCapabilities, 10: string processorIdentifier }
struct ClientCapabilities { 1: list<i32> values }
struct GetTableRequest { 1: string dbName, 2: string tblName, 3: ClientCapabilities capabilities }
struct GetTableResult { 1: Table table }

struct OpenTxnRequest { 1: i32 num_txns, 2: string user, 3: string hostname, 4: string agentInfo }
struct OpenTxnsResponse { 1: list<i64> txn_ids }
struct TxnInfo { 1: i64 id, 2: i32 state }
struct GetOpenTxnsInfoResponse { 1: i64 txn_high_water_mark, 2: list<TxnInfo> open_txns }
struct TxnRequest { 1: i64 txnid }
struct AllocateRequest { 1: string dbName, 2: string tableName, 3: list<i64> txnIds }
struct TxnToWriteId { 1: i64 txnId, 2: i64 writeId }
struct AllocateResponse { 1: list<TxnToWriteId> txnToWriteIds }
struct WriteIdsRequest { 1: list<string> fullTableNames, 2: string validTxnList }
struct TableValidWriteIds { 1: string fullTableName, 2: i64 writeIdHighWaterMark, 3: list<i64> invalidWriteIds,
  4: i64 minOpenWriteId, 5: binary abortedBits }
struct WriteIdsResponse { 1: list<TableValidWriteIds> tblValidWriteIds }
struct AddDynamicPartitions { 1: i64 txnid, 2: i64 writeid, 3: string dbname, 4: string tablename,
  5: list<string> partitionnames, 6: i32 operationType }

struct LockComponent { 1: i32 type, 2: i32 level, 3: string dbname, 4: string tablename, 5: string partitionname,
  6: i32 operationType, 7: bool isTransactional, 8: bool isDynamicPartitionWrite }
struct LockRequest { 1: list<LockComponent> component, 2: i64 txnid, 3: string user, 4: string hostname,
  5: string agentInfo }
struct LockResponse { 1: i64 lockid, 2: i32 state }
struct UnlockRequest { 1: i64 lockid }
struct ShowLocksRequest { 1: string dbname, 2: string tablename, 3: string partname }
struct Lock { 1: i64 lockid, 2: string dbname, 3: string tablename, 4: string partname, 5: i32 state, 6: i32 type,
  7: i64 txnid, 10: string user, 11: string hostname, 13: string agentInfo }
struct ShowLocksResponse { 1: list<Lock> locks }

struct CompactionRequest { 1: string dbname, 2: string tablename, 3: string partitionname, 4: i32 type }
struct CompactionResponse { 1: i64 id, 2: string state, 3: bool accepted }
struct ShowCompactRequest { }
struct Compaction { 1: string dbname, 2: string tablename, 3: string partitionname, 4: i32 type, 5: string state,
  6: string workerid, 7: i64 start, 8: string runAs, 9: i64 hightestTxnId, 11: i64 endTime, 13: i64 id }
struct ShowCompactResponse { 1: list<Compaction> compacts }

service Metastore {
  void create_catalog(1: CreateCatalogRequest r)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3)
  void drop_catalog(1: DropCatalogRequest r)
    throws (1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)
  void create_database(1: Database d)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3)
  void drop_database(1: string name, 2: bool deleteData, 3: bool cascade)
    throws (1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)
  void create_table(1: Table t) throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2,
    3: MetaException o3, 4: NoSuchObjectException o4)
  void create_table_req(1: CreateTableRequest r) throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2,
    3: MetaException o3, 4: NoSuchObjectException o4)
  GetTableResult get_table_req(1: GetTableRequest r) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  void alter_table(1: string db, 2: string name, 3: Table t)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
  void drop_table(1: string db, 2: string name, 3: bool deleteData)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
  Partition add_partition(1: Partition p)
    throws (1: InvalidObjectException o1, 2: AlreadyExistsException o2, 3: MetaException o3)
  i32 add_partitions(1: list<Partition> p)
    throws (1: InvalidObjectException o1, 2: AlreadyExistsException o2, 3: MetaException o3)
  bool drop_partition(1: string db, 2: string name, 3: list<string> values, 4: bool deleteData)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
  list<string> get_partition_names(1: string db, 2: string name, 3: i16 max)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)

  OpenTxnsResponse open_txns(1: OpenTxnRequest r)
  GetOpenTxnsInfoResponse get_open_txns_info()
  void abort_txn(1: TxnRequest r) throws (1: NoSuchTxnException o1)
  void commit_txn(1: TxnRequest r) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  AllocateResponse allocate_table_write_ids(1: AllocateRequest r)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: MetaException o3)
  WriteIdsResponse get_valid_write_ids(1: WriteIdsRequest r) throws (1: NoSuchTxnException o1, 2: MetaException o2)
  void add_dynamic_partitions(1: AddDynamicPartitions r) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)

  LockResponse lock(1: LockRequest r) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  void unlock(1: UnlockRequest r) throws (1: NoSuchLockException o1, 2: TxnOpenException o2)
  ShowLocksResponse show_locks(1: ShowLocksRequest r)

  CompactionResponse compact2(1: CompactionRequest r)
  ShowCompactResponse show_compact(1: ShowCompactRequest r)
}
