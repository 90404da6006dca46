-- from the tables of Hive 4.1 to those of 4.2: catalogs have parameters
CREATE TABLE "CATALOG_PARAMS" (
  "CTLG_ID" bigint NOT NULL REFERENCES "CTLGS" ON DELETE CASCADE,
  "PARAM_KEY" varchar(180) NOT NULL,
  "PARAM_VALUE" varchar(4000),
  PRIMARY KEY ("CTLG_ID", "PARAM_KEY")
);
UPDATE "VERSION" SET "SCHEMA_VERSION" = '4.2.0';
