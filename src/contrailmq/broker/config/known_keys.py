"""Every key a ``broker.conf`` of the original may hold, by the class that reads it there.

A table, no logic: keys of RocketMQ 4.9 and 5.x.  What of it is used here is said by the settings
classes; the rest is known, and ignored by name.
"""

from __future__ import annotations

from typing import Final

_BROKER_KEYS: Final = """
    accountStatsEnable accountStatsPrintZeroValues ackMessageThreadPoolNums
    ackThreadPoolQueueCapacity aclEnable adminBrokerThreadPoolNums
    adminBrokerThreadPoolQueueCapacity allowRecallWhenBrokerNotWriteable appendAckAsync
    appendCkAsync asyncSendEnable authConfigPath authenticationEnabled
    authenticationMetadataProvider authenticationProvider authenticationStrategy
    authenticationWhitelist authorizationEnabled authorizationMetadataProvider
    authorizationProvider authorizationStrategy authorizationWhitelist
    autoCreateSubscriptionGroup autoCreateTopicEnable autoDeleteUnusedStats
    broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond brokerClusterName
    brokerConfigPath brokerElectionPriority brokerFastFailureEnable brokerHeartbeatInterval
    brokerIP1 brokerIP2 brokerId brokerName brokerNotActiveTimeoutMillis brokerPermission
    brokerTopicEnable cgColdReadThreshold channelExpiredTimeout checkSyncStateSetPeriod
    cleanOfflineBrokerInterval clearRetryTopicWhenDeleteTopic clientManageThreadPoolNums
    clientManagerThreadPoolQueueCapacity clusterTopicEnable coldCtrStrategyEnable
    commercialBaseCount commercialBigCount commercialEnable commercialSizePerMsg
    commercialTimerCount commercialTransCount compatibleWithOldNameSrv compressedRegister
    configBlackList configManagerVersion consumerFallbehindThreshold
    consumerManageThreadPoolNums consumerManagerThreadPoolQueueCapacity
    consumerOffsetUpdateVersionStep controllerAddr controllerHeartBeatTimeoutMills
    defaultMessageRequestMode defaultPopShareQueueNum defaultTopicQueueNums
    delayOffsetUpdateVersionStep disableConsumeIfConsumerReadSlowly enableBroadcastOffsetStore
    enableCalcFilterBitMap enableControllerMode enableCreateSysGroup enableDetailStat
    enableLmqStats enableMixedMessageType enableNetWorkFlowControl
    enableNotifyAfterPopOrderLockRelease enablePopBatchAck enablePopBufferMerge enablePopLog
    enablePopMessageThreshold enablePropertyFilter enableRemoteEscape enableRetryTopicV2
    enableSingleTopicRegister enableSkipLongAwaitingAck enableSlaveActingMaster
    enableSplitRegistration endTransactionPoolQueueCapacity endTransactionThreadPoolNums
    estimateAccumulation expectConsumerNumUseFilter fetchControllerAddrByDnsLookup
    fetchNameSrvAddrByDnsLookup fetchNamesrvAddrByAddressServer fetchNamesrvAddrInterval
    filterDataCleanTimeSpan filterServerNums filterSupportRetry
    flushConsumerOffsetHistoryInterval flushConsumerOffsetInterval forceRegister
    forwardTimeout globalColdReadThreshold heartbeatThreadPoolNums
    heartbeatThreadPoolQueueCapacity highSpeedMode initAuthenticationUser
    initPopOffsetByCheckMsgInMem innerClientAuthenticationCredentials isBrokerContainer
    isInBrokerContainer isolateLogEnable listenPort litePullMessageEnable
    litePullMessageThreadPoolNums litePullThreadPoolQueueCapacity
    loadBalancePollNameServerInterval loadBalanceProcessorThreadPoolNums
    loadBalanceThreadPoolQueueCapacity lockInStrictMode longPollingEnable maxDelayTime
    maxErrorRateOfBloomFilter maxPopPollingSize messageStorePlugIn
    metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills
    metricLoggingExporterIntervalInMills metricsExporterType metricsGrpcExporterHeader
    metricsGrpcExporterTarget metricsInDelta metricsLabel metricsOtelCardinalityLimit
    metricsPromExporterHost metricsPromExporterPort migrateAuthFromV1Enabled msgTraceTopicName
    namesrvAddr namesrvDomain namesrvDomainSubgroup notifyConsumerIdsChangedEnable
    popCkMaxBufferSize popCkOffsetMaxQueueSize popCkStayBufferTime popCkStayBufferTimeOut
    popConsumerKVServiceEnable popConsumerKVServiceInit popConsumerKVServiceLog
    popInflightMessageThreshold popPollingMapSize popPollingSize
    popResponseReturnActualRetryTopic popReviveMaxReturnSizePerRead
    processReplyMessageThreadPoolNums pullMessageThreadPoolNums pullThreadPoolQueueCapacity
    putMessageFutureThreadPoolNums putThreadPoolQueueCapacity queryMessageThreadPoolNums
    queryThreadPoolQueueCapacity realTimeNotifyConsumerChange recallMessageEnable
    recallMessageThreadPoolNums recoverConcurrently recoverThreadPoolNums regionId
    registerBrokerTimeoutMills registerNameServerPeriod rejectPullConsumerEnable
    rejectTransactionMessage replyThreadPoolQueueCapacity retrieveMessageFromPopRetryTopicV1
    reviveAckWaitMs reviveInterval reviveMaxSlow reviveQueueNum reviveScanTime rocketmqHome
    rocksDBCompactionIntervalHours sendHeartbeatTimeoutMillis sendMessageThreadPoolNums
    sendThreadPoolQueueCapacity serverLoadBalancerEnable shortPollingTimeMills skipPreOnline
    slaveReadEnable splitMetadataSize splitRegistrationSize startAcceptSendRequestTimeStamp
    storeReplyMessageEnable subscriptionExpiredTimeout suppressMinValueMetrics
    syncBrokerMemberGroupPeriod
    syncBrokerMetadataPeriod syncControllerMetadataPeriod topicConfigVersionStep traceOn
    traceTopicEnable transactionCheckInterval transactionCheckMax
    transactionMetricFlushInterval transactionOpBatchInterval transactionOpMsgMaxSize
    transactionTimeOut transferMsgByHeap usePIDColdCtrStrategy useServerSideResetOffset
    useStaticSubscription validateSystemTopicWhenUpdateTopic waitTimeMillsInAckQueue
    waitTimeMillsInHeartbeatQueue waitTimeMillsInLitePullQueue waitTimeMillsInPullQueue
    waitTimeMillsInSendQueue waitTimeMillsInTransactionQueue
"""
_STORE_KEYS: Final = """
    accessMessageInMemoryHotRatio accessMessageInMemoryMaxRatio allAckInSyncStateSet
    asyncLearner autoMessageVersionOnTopicLen bitMapLengthConsumeQueueExt
    bottomMostCompressionTypeForConsumeQueueStore brokerRole checkCRCOnRecover
    cleanFileForciblyEnable cleanResourceInterval cleanRocksDBDirtyCQIntervalMin
    cleanSwapedMapInterval coldDataFlowControlEnable coldDataScanEnable
    commitCommitLogLeastPages commitCommitLogThoroughInterval commitIntervalCommitLog
    commitLogForceSwapMapInterval commitLogSwapMapInterval commitLogSwapMapReserveFileNum
    compactionCqMappedFileSize compactionMappedFileSize compactionScheduleInternal
    correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval dLegerGroup
    dLegerPeers dLegerSelfId dataReadAheadEnable debugLockEnable defaultQueryMaxNum
    deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval deleteFileBatchMax deleteWhen
    destroyMapedFileIntervalForcibly disappearTimeAfterStart diskFallRecorded
    diskMaxUsedSpaceRatio diskSpaceCleanForciblyRatio diskSpaceWarningLevelRatio
    dispatchCqCacheNum dispatchFromSenderThread duplicationEnable enableAsyncReput
    enableAutoInSyncReplicas enableBatchPush enableBuildConsumeQueueConcurrently
    enableCleanExpiredOffset enableCompaction enableConsumeQueueExt enableDLegerCommitLog
    enableLmq enableMultiDispatch enableRocksDBLog enableScheduleAsyncDeliver
    enableScheduleMessageStats enabledAppendPropCRC fastFailIfNoBufferInStorePool
    fileReservedTime flushCommitLogLeastPages flushCommitLogThoroughInterval
    flushCommitLogTimed flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval
    flushDelayOffsetInterval flushDiskType flushIntervalCommitLog flushIntervalConsumeQueue
    flushLeastPagesWhenWarmMapedFile forceVerifyPropCRC haFlowControlEnable
    haHousekeepingInterval haListenPort haMasterAddress haMaxGapNotInSync
    haMaxTimeSlaveNotCatchup haSendHeartbeatInterval haSlaveFallbehindMax haTransferBatchSize
    inSyncReplicas isEnableBatchPush logicQueueForceSwapMapInterval logicQueueSwapMapInterval
    logicQueueSwapMapReserveFileNum logicalDiskSpaceCleanForciblyThreshold
    mappedFileSizeCommitLog mappedFileSizeConsumeQueue mappedFileSizeConsumeQueueExt
    mappedFileSizeTimerLog mappedFileSwapEnable mapperFileSizeBatchConsumeQueue
    maxAsyncPutMessageRequests maxBatchDeleteFilesNum maxChecksumRange maxConsumeQueueScan
    maxFilterMessageSize maxHaTransferByteInSecond maxHashSlotNum maxIndexNum
    maxLmqConsumeQueueNum maxMessageSize maxMsgsNumBatch maxOffsetMapSize
    maxRecoveryCommitlogFiles maxSlaveResendLength maxTopicLength
    maxTransferBytesOnMessageInDisk maxTransferBytesOnMessageInMemory
    maxTransferCountOnMessageInDisk maxTransferCountOnMessageInMemory memTableFlushIntervalMs
    messageDelayLevel messageIndexEnable messageIndexSafe minInSyncReplicas offsetCheckInSlave
    osPageCacheBusyTimeOutMills preferredLeader pullBatchMaxMessageCount putMessageTimeout
    putMsgIndexHightWater readOnlyCommitLogStorePaths realTimePersistRocksDBConfig
    recheckReputOffsetFromCq redeleteHangedFileInterval replicasPerDiskPartition
    rocksdbCompressionType rocksdbFlushWalFrequency sampleCountThreshold sampleSteps
    scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked
    searchBcqByCacheEnable slaveTimeout statRocksDBCQIntervalSec storePathBrokerIdentity
    storePathCommitLog storePathConsumeQueue storePathDLedgerCommitLog storePathEpochFile
    storePathIndex storePathRootDir storeType syncFlushTimeout syncFromLastFile
    syncMasterFlushOffsetWhenStartup timerCheckMetricsWhen timerColdDataCheckIntervalMs
    timerCongestNumEachSlot timerEnableCheckMetrics timerEnableDisruptor timerFlushIntervalMs
    timerInterceptDelayLevel timerMaxDelaySec timerMetricSmallThreshold timerPrecisionMs
    timerProgressLogIntervalMs timerRocksDBEnable timerRollWindowSlot timerSkipUnknownError
    timerStopDequeue timerStopEnqueue timerWarmEnable timerWheelEnable topicQueueLockNum
    totalReplicas transRocksDBEnable transientStorePoolEnable transientStorePoolSize
    travelCqFileNumWhenGetMessage useReentrantLockWhenPutMessage wakeCommitWhenPutMessage
    wakeFlushWhenPutMessage warmMapedFileEnable
"""
_SERVER_KEYS: Final = """
    bindAddress enableShutdownGracefully listenPort serverAsyncSemaphoreValue
    serverCallbackExecutorThreads serverChannelMaxIdleTimeSeconds serverNettyWorkerGroupEnable
    serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads
    serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads
    shutdownWaitTimeSeconds useEpollNativeSelector writeBufferHighWaterMark
    writeBufferLowWaterMark
"""
_CLIENT_KEYS: Final = """
    channelNotActiveInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads
    clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout clientOnewaySemaphoreValue
    clientPooledByteBufAllocatorEnable clientSocketRcvBufSize clientSocketSndBufSize
    clientWorkerThreads connectTimeoutMillis disableCallbackExecutor disableNettyWorkerGroup
    enableReconnectForGoAway enableTransparentRetry maxReconnectIntervalTimeSeconds
    scanAvailableNameSrv socksProxyConfig useTLS writeBufferHighWaterMark
    writeBufferLowWaterMark
"""
BROKER_KEYS: Final = frozenset(_BROKER_KEYS.split())  # BrokerConfig
STORE_KEYS: Final = frozenset(_STORE_KEYS.split())  # MessageStoreConfig
SERVER_KEYS: Final = frozenset(_SERVER_KEYS.split())  # NettyServerConfig
CLIENT_KEYS: Final = frozenset(_CLIENT_KEYS.split())  # NettyClientConfig
KNOWN_KEYS: Final = BROKER_KEYS | STORE_KEYS | SERVER_KEYS | CLIENT_KEYS
